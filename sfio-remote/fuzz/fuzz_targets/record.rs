#![no_main]
//! Records: of any bytes none makes the reader panic or take more than 32 times their length; and what somebody with a
//! right key signs is read as it was written, whatever it says.

use fec_transport::keys::Identity;
use sfio_remote::replication::{Record, SignedRecord};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sfio_remote_fuzz::bounded(bytes, 32, 64 << 10, |bytes| {
        let _ = SignedRecord::parse(bytes.to_vec().into());
    });
    sfio_remote_fuzz::bounded(bytes, 32, 64 << 10, |bytes| {
        // No mutation hits a signature: here the bytes are a body, which a member signs.
        let Ok(mut record) = postcard::from_bytes::<Record>(bytes) else { return };
        let identity = Identity::from_seed([7; 32]);
        record.signer.key = identity.public().ed25519;
        if let Ok(signed) = SignedRecord::sign(record, &identity) {
            assert_eq!(SignedRecord::parse(signed.bytes().clone()), Ok(signed));
        }
    });
});
