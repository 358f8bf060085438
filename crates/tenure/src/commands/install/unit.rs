//! The files of an installed daemon, as text. Knows nothing of this machine.

use std::path::{Path, PathBuf};

use crate::config::{Flags, MACHINE_DATA, MACHINE_RUN, Settings};

/// Where the unit goes.
pub(crate) const UNIT_PATH: &str = "/etc/systemd/system/tenure.service";
/// Its name.
pub(crate) const UNIT_NAME: &str = "tenure.service";
/// Where the daemon's user is declared.
pub(crate) const SYSUSERS_PATH: &str = "/etc/sysusers.d/tenure.conf";
/// The settings that an installed daemon starts with.
pub(crate) const FIRST_SETTINGS: &str = "\
# Settings of the daemon that `tenure install` set up. `tenure serve --print-config` shows them all.

[auth]
# What programs on this machine may do over TCP without a credential: admin, hold, read or none.
# The socket identifies the caller: root and the daemon's user may do everything, its group may hold.
local = \"hold\"
";
/// As long as the daemon may take to start.
const RELOAD_WITHIN: &str = "10m";
/// Ports below this are for those who have leave.
const FREE_PORTS: u16 = 1024;

/// What a unit is made from.
pub(crate) struct Unit<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Who runs it.
    pub(crate) user: &'a str,
    /// Flags of `tenure serve`.
    pub(crate) flags: &'a Flags,
    /// What they come to, for what the unit must allow.
    pub(crate) settings: &'a Settings,
}

/// What an earlier unit was made from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub(crate) user: String,
    pub(crate) flags: Flags,
}

impl Unit<'_> {
    pub(crate) fn text(&self) -> String {
        let arguments = self.flags.to_arguments();
        let program = self.program.display().to_string();
        let words: Vec<String> = [program.as_str(), "serve"]
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .map(quoted)
            .collect();
        let remembered = serde_json::to_string(&arguments).expect("invariant: texts fit into JSON");
        format!(
            "\
# Written by `tenure install`, which writes it again. Put your own settings in a drop-in: systemctl edit tenure

[Unit]
Description=Tenure: who holds what, until when
After=network.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={exec}
# Another program at the same path, or other settings: the daemon restarts, and services stay advertised.
ExecReload={reload}
User={user}
Group={user}
# Leases outlive the daemon: it comes back, and their holders go on.
Restart=on-failure
RestartSec=1s
WatchdogSec=30s
# Recovery reads the whole log since the last snapshot.
TimeoutStartSec=10min
TimeoutStopSec=30s
LimitNOFILE=65536
# The socket has its own mode; the breadcrumb beside it is readable for every user, the data only for the daemon.
RuntimeDirectory=tenure
RuntimeDirectoryMode=0755
StateDirectory=tenure
StateDirectoryMode=0700
ConfigurationDirectory=tenure
ConfigurationDirectoryMode=2755
UMask=0022
{paths}{capabilities}
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
PrivateDevices=yes
PrivateTmp=yes
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources

[Install]
WantedBy=multi-user.target

# Read by the next `tenure install`, ignored by systemd.
[X-Tenure]
Flags={remembered}
",
            exec = words.join(" "),
            reload = self.reload(),
            user = self.user,
            paths = self.paths(),
            capabilities = self.capabilities(),
        )
    }

    /// The command of the same program that has the daemon restart. It is found by its socket, where its own user may do
    /// everything.
    fn reload(&self) -> String {
        let program = self.program.display().to_string();
        let mut words = vec![program, "admin".to_owned(), "restart".to_owned()];
        words.extend(["--timeout".to_owned(), RELOAD_WITHIN.to_owned()]);
        if let Some(socket) = &self.settings.server.socket {
            words.extend(["--endpoint".to_owned(), format!("unix:{}", socket.display())]);
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Directories that the settings put elsewhere and the daemon writes to.
    pub(crate) fn own_directories(&self) -> Vec<PathBuf> {
        let Settings { server, log, .. } = self.settings;
        let socket = server.socket.as_ref().and_then(|socket| socket.parent()).map(Path::to_owned);
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in [Some(server.data_dir.clone()), server.run_dir.clone(), socket, log.archive.clone()]
            .into_iter()
            .flatten()
        {
            let given_by_systemd = [MACHINE_DATA, MACHINE_RUN].iter().any(|ours| directory.starts_with(ours));
            if !given_by_systemd && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories
    }

    fn paths(&self) -> String {
        let line = |path: &PathBuf| format!("ReadWritePaths={}\n", quoted(&path.display().to_string()));
        self.own_directories().iter().map(line).collect()
    }

    fn capabilities(&self) -> &'static str {
        if (1..FREE_PORTS).contains(&self.settings.server.port) {
            "AmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n"
        } else {
            "CapabilityBoundingSet=\n"
        }
    }
}

impl Earlier {
    /// Reads what a unit remembers; `None`: it was not written by `tenure install`.
    pub(crate) fn of(unit: &str) -> Option<Self> {
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        let arguments: Vec<String> = serde_json::from_str(value("Flags=")?).ok()?;
        let flags = Flags::from_arguments(&arguments).ok()?;
        Some(Self { user: value("User=")?.to_owned(), flags })
    }
}

/// Declares the daemon's user for systemd-sysusers.
pub(crate) fn sysusers(user: &str) -> String {
    format!("# The user of the daemon that `tenure install` set up.\nu {user} - \"Tenure\" {MACHINE_DATA}\n")
}

/// Whether systemd and the tools for users accept a name.
pub(crate) fn is_user_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    let other = |c: char| first(c) || c.is_ascii_digit() || c == '-';
    name.len() <= 31 && name.starts_with(first) && name.chars().all(other)
}

/// One word of a command line as systemd reads it: `%` and `$` mean something there.
fn quoted(word: &str) -> String {
    let mut text = String::new();
    for character in word.chars() {
        match character {
            '%' => text.push_str("%%"),
            '$' => text.push_str("$$"),
            '"' | '\\' => text.extend(['\\', character]),
            control if control.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(control))),
            other => text.push(other),
        }
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+[]".contains(c);
    if word.chars().all(is_plain) && !word.is_empty() { text } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        for (word, text) in [
            ("--port=7000", "--port=7000"),
            ("--data-dir=/a b", "\"--data-dir=/a b\""),
            ("100%", "100%%"),
            ("$HOME", "\"$$HOME\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("a\nb", "\"a\\x0ab\""),
            ("a;b", "\"a;b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(word), text);
        }
    }

    #[test]
    fn only_plain_user_names_are_accepted() {
        assert!(["tenure", "_tenure", "t-1"].into_iter().all(is_user_name));
        let long = "x".repeat(32);
        assert!(!["", "Tenure", "1t", "a b", "a\nb", "ü", long.as_str()].into_iter().any(is_user_name));
    }

    #[test]
    fn a_unit_that_somebody_else_wrote_is_not_an_earlier_one() {
        assert_eq!(Earlier::of("[Service]\nUser=x\nExecStart=/bin/x\n"), None);
        assert_eq!(Earlier::of("[Service]\nUser=x\n[X-Tenure]\nFlags=[\"--unknown\"]\n"), None);
        let earlier = Earlier::of("[Service]\nUser=x\n[X-Tenure]\nFlags=[\"--port=1\"]\n").unwrap();
        assert_eq!((earlier.user.as_str(), earlier.flags.to_arguments()), ("x", vec!["--port=1".to_owned()]));
    }
}
