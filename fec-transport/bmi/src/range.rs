//! Whether an address is in a range of addresses.

use std::net::IpAddr;

/// Whether a peer is in a range: both are addresses, or several of them separated by commas. Of hosts with an IP
/// address the first `bits` are compared; of others the names, in which a final `*` of the range stands for anything.
pub fn contains(range: &str, bits: i32, peer: &str) -> Result<bool, String> {
    let mut found = false;
    for range in range.split(',').map(str::trim) {
        let (scheme, place) = range.split_once("://").ok_or_else(|| {
            format!("\"{range}\" is no range of addresses; expected SCHEME://PLACE, or several separated by commas")
        })?;
        for (its_scheme, its_place) in peer.split(',').filter_map(|part| part.trim().split_once("://")) {
            found |= its_scheme == scheme && place_is_in(place, bits, its_place)?;
        }
    }
    Ok(found)
}

fn place_is_in(range: &str, bits: i32, place: &str) -> Result<bool, String> {
    if let Some(start) = range.strip_suffix('*') {
        return Ok(place.starts_with(start));
    }
    match (host(range), host(place)) {
        (Some(range), Some(place)) => in_network(range, bits, place),
        _ => Ok(range == place),
    }
}

/// The IP address of a place that has one, with or without a port.
fn host(place: &str) -> Option<IpAddr> {
    let without_key = place.rsplit('@').next().unwrap_or(place);
    let with_port = without_key.parse().ok().map(|address: std::net::SocketAddr| address.ip());
    with_port.or_else(|| without_key.trim_matches(['[', ']']).parse().ok())
}

fn in_network(network: IpAddr, bits: i32, host: IpAddr) -> Result<bool, String> {
    let (network, host, width) = match (network, host) {
        (IpAddr::V4(network), IpAddr::V4(host)) => {
            (u128::from(network.to_bits()), u128::from(host.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(host)) => (network.to_bits(), host.to_bits(), 128),
        _ => return Ok(false),
    };
    let bits = u32::try_from(bits).ok().filter(|bits| *bits <= width);
    let bits =
        bits.ok_or_else(|| format!("a netmask of an address with {width} bits is from 0 to {width}"))?;
    let rest = width - bits;
    Ok(network.checked_shr(rest).unwrap_or(0) == host.checked_shr(rest).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::contains;

    #[test]
    fn ranges_are_of_hosts_by_their_bits_and_of_names_by_their_beginning() {
        for (range, bits, peer, expected) in [
            ("quic://192.0.2.0", 24, "quic://192.0.2.7:7100", true),
            ("quic://192.0.2.0", 24, "quic://192.0.3.7:7100", false),
            ("quic://192.0.2.0", 0, "quic://10.0.0.1:1", true),
            ("quic://192.0.2.7:9", 32, "quic://192.0.2.7:7100", true),
            ("quic://[2001:db8::]", 32, "quic://[2001:db8::7]:7100", true),
            ("quic://[2001:db8::]", 128, "quic://[2001:db8::7]:7100", false),
            ("quic://192.0.2.0", 24, "quic://[2001:db8::7]:7100", false),
            ("fec://io1", 24, "fec://io1", true),
            ("fec://io1", 24, "fec://io2", false),
            ("fec://io*", 0, "fec://io2", true),
            ("quic://*", 0, "fec://io2", false),
            ("quic://192.0.2.0, fec://io2", 24, "quic://10.0.0.1:1,fec://io2", true),
        ] {
            assert_eq!(contains(range, bits, peer), Ok(expected), "{range}/{bits} {peer}");
        }
    }

    #[test]
    fn what_is_no_range_is_told() {
        assert!(contains("192.0.2.0", 24, "quic://192.0.2.7:1").is_err());
        assert!(contains("quic://192.0.2.0", 33, "quic://192.0.2.7:1").is_err());
        assert!(contains("quic://192.0.2.0", -1, "quic://192.0.2.7:1").is_err());
    }
}
