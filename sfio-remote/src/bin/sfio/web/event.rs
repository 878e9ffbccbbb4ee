//! Server-sent events, as browsers read them: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use hyper::body::Bytes;
use serde::Serialize;

/// How long a browser waits before it connects again.
const RETRY_MS: u32 = 1_000;

/// An event of that name. Its data is one line: JSON has no line break but within strings, where it is escaped.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    // What is shown has no maps with keys other than strings, nor anything else that JSON cannot say.
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    Bytes::from(format!("event: {name}\nretry: {RETRY_MS}\ndata: {json}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_name_and_one_line_of_data_whatever_the_data_is() {
        let event = event("look", &["two\nlines", "\r\n\r\ndata: forged", "\u{2028}"]);
        let text = std::str::from_utf8(&event).expect("text");
        assert!(text.starts_with("event: look\n") && text.ends_with("\n\n"));
        let lines: Vec<&str> = text.trim_end().split(['\n', '\r']).collect();
        assert_eq!(lines.len(), 3, "{text:?}");
        let data = lines[2].strip_prefix("data: ").expect("data");
        let read: Vec<String> = serde_json::from_str(data).expect("JSON");
        assert_eq!(read[1], "\r\n\r\ndata: forged");
    }
}
