//! Limits and policies. SKELETON (being filled in).

/// Every limit and policy of a node.
#[derive(Debug, Clone, Default)]
pub struct Config {}
