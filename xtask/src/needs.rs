//! Programs that the tests and tools need: how to see that one is there, how to get it.
//! Installed only if missing, and only through the ordinary package clients. What cannot be
//! installed is a failure, never a skip.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// One program from outside.
///
/// `install` is a list of command lines, so that every client is written alike:
/// `apt-get install --yes NAME`; `cargo install --locked NAME`; or, for Python, two lines:
/// `python3 -m venv target/venv` and `target/venv/bin/pip install NAME`.
pub(crate) struct Need {
    pub(crate) name: &'static str,
    /// Succeeds exactly if the program is usable.
    pub(crate) check: &'static [&'static str],
    pub(crate) install: &'static [&'static [&'static str]],
}

/// Installs Debian packages whose services nobody asked for: none is started, and an Avahi or a Redis that was not
/// there before does not start with the machine either. The policy that refuses a start is laid over the machine's
/// own for the installer alone, in a mount namespace, so that nothing has to be put back. Recommended packages are
/// left out: libnss-mdns, one of them, would change how the whole machine resolves names.
const WITHOUT_SERVICES: &str = r#"
set -eu
policy=/usr/sbin/policy-rc.d
mkdir -p target
refusal=$(mktemp target/policy-rc.d.XXXXXX)
made=
trap 'rm -f "$refusal" $made' EXIT
trap 'exit 130' INT TERM
printf '#!/bin/sh\nexit 101\n' >"$refusal"
chmod 755 "$refusal"
if [ ! -e "$policy" ]; then : >"$policy"; made=$policy; fi
units=
for unit in avahi-daemon.service avahi-daemon.socket redis-server.service etcd.service postgresql.service; do
    if [ ! -e "/lib/systemd/system/$unit" ]; then units="$units $unit"; fi
done
unshare --mount sh -euc 'mount --bind "$1" "$2"; shift 2
    apt-get install --yes --no-install-recommends "$@"' sh "$refusal" "$policy" "$@"
for unit in $units; do
    if [ -e "/lib/systemd/system/$unit" ]; then systemctl --quiet disable "$unit"; fi
done
"#;

/// Carries the log of a cluster; a peer as well.
const ETCD: Need = Need {
    name: "etcd-server",
    check: &["etcd", "--version"],
    install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "etcd-server"]],
};

/// What `cargo xtask test` needs.
pub(crate) const FOR_TESTS: &[Need] = &[
    ETCD,
    Need {
        name: "cargo-nextest",
        check: &["cargo", "nextest", "--version"],
        // Without its self-update (an HTTP client and TLS) nextest builds in much less time.
        install: &[&[
            "cargo",
            "install",
            "--locked",
            "--no-default-features",
            "--features",
            "default-no-update",
            "cargo-nextest@0.9.143",
        ]],
    },
    // A network, users and file systems of the tests' own.
    Need { name: "iproute2", check: &["ip", "-V"], install: &[&["apt-get", "install", "--yes", "iproute2"]] },
    Need {
        name: "util-linux",
        check: &["setpriv", "--version"],
        install: &[&["apt-get", "install", "--yes", "util-linux"]],
    },
    // Judges the unit that `tenure install` writes; nothing is started.
    Need {
        name: "systemd",
        check: &["systemd-analyze", "--version"],
        install: &[&["apt-get", "install", "--yes", "systemd"]],
    },
    // Hold the daemon against its own OpenAPI document, and the document against OpenAPI.
    Need {
        name: "schemathesis",
        check: &["target/venv/bin/schemathesis", "--version"],
        install: &[
            &["python3", "-m", "venv", "target/venv"],
            &["target/venv/bin/pip", "install", "--quiet", "schemathesis==4.32.5"],
        ],
    },
    Need {
        name: "openapi-spec-validator",
        check: &["target/venv/bin/openapi-spec-validator", "--version"],
        install: &[
            &["python3", "-m", "venv", "target/venv"],
            &["target/venv/bin/pip", "install", "--quiet", "openapi-spec-validator==0.9.0"],
        ],
    },
    // The dashboard, as people see it. What fits a page depends on its letters.
    Need {
        name: "fonts-liberation",
        check: &[
            "sh",
            "-c",
            "dpkg -s fonts-liberation 2>/dev/null | grep -q '^Status: install ok installed'",
        ],
        install: &[&["apt-get", "install", "--yes", "--no-install-recommends", "fonts-liberation"]],
    },
    Need {
        name: "chromium",
        check: &["chromium", "--version"],
        install: &[&["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]],
    },
    Need {
        name: "chromium-driver",
        check: &["chromedriver", "--version"],
        install: &[&["apt-get", "install", "--yes", "--no-install-recommends", "chromium-driver"]],
    },
    // mDNS as others speak it, each in a network namespace of a test.
    Need {
        name: "dbus",
        check: &["dbus-daemon", "--version"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "dbus"]],
    },
    Need {
        name: "avahi-daemon",
        check: &["avahi-daemon", "--version"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "avahi-daemon"]],
    },
    Need {
        name: "avahi-utils",
        check: &["avahi-browse", "--version"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "avahi-utils"]],
    },
    Need {
        name: "zeroconf",
        check: &["target/venv/bin/python", "-c", "import zeroconf; assert zeroconf.__version__ == '0.153.0'"],
        install: &[
            &["python3", "-m", "venv", "target/venv"],
            &["target/venv/bin/pip", "install", "--quiet", "zeroconf==0.153.0"],
        ],
    },
    // Polling through Redis, beside a program as they were before this one. Each test starts a server of its own.
    Need {
        name: "redis-server",
        check: &["redis-server", "--version"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "redis-server"]],
    },
    Need {
        name: "redis-tools",
        check: &["redis-cli", "--version"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "redis-tools"]],
    },
    Need {
        name: "redis for Python",
        check: &["target/venv/bin/python", "-c", "import redis; assert redis.__version__ == '8.1.0'"],
        install: &[
            &["python3", "-m", "venv", "target/venv"],
            &["target/venv/bin/pip", "install", "--quiet", "redis==8.1.0"],
        ],
    },
];

/// What `cargo xtask bench peers` measures beside us. Each run starts servers of its own, in directories of its own.
pub(crate) const FOR_PEERS: &[Need] = &[
    ETCD,
    // Debian keeps its programs beside the path, by version.
    Need {
        name: "postgresql",
        check: &["sh", "-c", "command -v initdb || ls /usr/lib/postgresql/*/bin/initdb"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "postgresql"]],
    },
    // Only what Java runs: the service is another package.
    Need {
        name: "zookeeper",
        check: &["sh", "-c", "java -version && test -e /usr/share/java/zookeeper.jar"],
        install: &[&["sh", "-c", WITHOUT_SERVICES, "sh", "default-jre-headless", "zookeeper"]],
    },
];

/// What `cargo xtask instructions` needs.
pub(crate) const FOR_INSTRUCTIONS: &[Need] = &[Need {
    name: "valgrind",
    check: &["valgrind", "--version"],
    install: &[&["apt-get", "install", "--yes", "--no-install-recommends", "valgrind"]],
}];

/// What `cargo xtask mutants` needs.
pub(crate) const FOR_MUTANTS: &[Need] = &[Need {
    name: "cargo-mutants",
    check: &["cargo", "mutants", "--version"],
    install: &[&["cargo", "install", "--locked", "cargo-mutants@27.1.0"]],
}];

/// What `cargo xtask deny` needs.
pub(crate) const FOR_DENY: &[Need] = &[Need {
    name: "cargo-deny",
    check: &["cargo", "deny", "--version"],
    install: &[&["cargo", "install", "--locked", "cargo-deny@0.20.2"]],
}];

/// Installs whatever is missing.
pub(crate) fn provide(needs: &[Need]) -> Result<()> {
    for need in needs {
        if is_there(need) {
            continue;
        }
        eprintln!("{} is missing: installing it", need.name);
        for line in need.install {
            shell::run(&mut command(line)).with_context(|| format!("{} is needed", need.name))?;
        }
        if !is_there(need) {
            bail!("{} was installed and still does not run", need.name);
        }
    }
    Ok(())
}

fn is_there(need: &Need) -> bool {
    shell::succeeds(&mut command(need.check))
}

fn command(line: &[&str]) -> Command {
    let (program, arguments) = line.split_first().expect("invariant: a command line names its program");
    // A path is one from the root of the workspace, wherever the caller stands.
    let program = if program.contains('/') { shell::root().join(program) } else { PathBuf::from(program) };
    let mut command = Command::new(program);
    command.current_dir(shell::root()).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: &[&str] = &["sh", "-c", "exit 1"];
    const PRESENT: &[&str] = &["sh", "-c", "exit 0"];

    fn need(check: &'static [&'static str], install: &'static [&'static [&'static str]]) -> Need {
        Need { name: "thing", check, install }
    }

    #[test]
    fn what_is_there_is_not_installed() {
        provide(&[need(PRESENT, &[ABSENT])]).unwrap();
    }

    #[test]
    fn an_install_that_fails_is_a_failure() {
        let error = provide(&[need(ABSENT, &[ABSENT])]).unwrap_err();
        assert_eq!(error.to_string(), "thing is needed");
    }

    #[test]
    fn an_install_without_effect_is_a_failure() {
        let error = provide(&[need(ABSENT, &[PRESENT])]).unwrap_err();
        assert_eq!(error.to_string(), "thing was installed and still does not run");
    }
}
