//! A name for this machine among those of a cluster, for principals that mean something on one machine alone.

use sha2::{Digest, Sha256};

/// Where systemd and dbus keep the id of a machine. It is not to leave the machine as it is (machine-id(5)): only a hash
/// of it does.
const FILE: &str = "/etc/machine-id";
/// Bytes of the hash that make the name.
const NAME_BYTES: usize = 6;

/// The name. A machine without an id goes by the name of its node.
pub(crate) fn name(node: &str) -> String {
    name_of(std::fs::read_to_string(FILE).ok().as_deref(), node)
}

fn name_of(id: Option<&str>, node: &str) -> String {
    let is_id = |id: &&str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut hash = Sha256::new();
    match id.map(str::trim).filter(is_id) {
        Some(id) => hash.update(format!("tenure machine {id}")),
        None => hash.update(format!("tenure node {node}")),
    }
    hash.finalize()[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_machine_share_its_name_and_the_id_is_not_told() {
        let id = "0123456789abcdef0123456789abcdef";
        let name = name_of(Some(&format!("{id}\n")), "a");
        assert_eq!(name, name_of(Some(id), "b"));
        assert!(name.len() == 2 * NAME_BYTES && !id.contains(&name), "{name}");
        assert_ne!(name, name_of(Some("1123456789abcdef0123456789abcdef"), "a"));
        // A machine whose id is not set yet has none.
        for none in [None, Some(""), Some("uninitialized\n")] {
            assert_eq!(name_of(none, "a"), name_of(None, "a"));
            assert_ne!(name_of(none, "a"), name_of(none, "b"));
        }
    }
}
