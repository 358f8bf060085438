//! Programs that the tests and tools need: how to see that one is there, where to get it.
//! Installed only if missing, and only through the ordinary package clients: what is missing is listed first, then each
//! client is asked once for all of it. What cannot be installed is a failure, never a skip.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// One program from outside.
pub(crate) struct Need {
    pub(crate) name: &'static str,
    /// Succeeds exactly if the program is usable.
    pub(crate) check: &'static [&'static str],
    pub(crate) from: Client,
}

/// Who installs it, and what it is called there.
#[derive(Clone, Copy)]
pub(crate) enum Client {
    /// Debian packages. Needs root.
    Apt(&'static [&'static str]),
    /// A Python package with its version, into `target/venv`.
    Pip(&'static str),
    /// Arguments of `cargo install --locked`.
    Cargo(&'static [&'static str]),
}

/// Installs Debian packages in one transaction, with the lists updated first where a package is not in them. Services
/// that nobody asked for are not started, and an Avahi or a Redis that was not there before does not start with the
/// machine either. The policy that refuses a start is laid over the machine's own for the installer alone, in a mount
/// namespace, so that nothing has to be put back; where there are no namespaces, a machine without a policy has this one
/// meanwhile. Recommended packages are left out: libnss-mdns, one of them, would change how the whole machine resolves
/// names.
const APT: &str = r#"
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "only root can install Debian packages; run: sudo apt-get install --no-install-recommends $*" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
get() { apt-get "$@" --yes --no-install-recommends; }
if ! get install --simulate "$@" >/dev/null 2>&1; then apt-get update; fi
policy=/usr/sbin/policy-rc.d
mkdir -p target
refusal=$(mktemp target/policy-rc.d.XXXXXX)
made=
trap 'rm -f "$refusal" $made' EXIT
trap 'exit 130' INT TERM
printf '#!/bin/sh\nexit 101\n' >"$refusal"
chmod 755 "$refusal"
if [ ! -e "$policy" ]; then cp "$refusal" "$policy"; made=$policy; fi
units=
for unit in avahi-daemon.service avahi-daemon.socket redis-server.service etcd.service postgresql.service; do
    if [ ! -e "/lib/systemd/system/$unit" ]; then units="$units $unit"; fi
done
if unshare --mount true 2>/dev/null; then
    unshare --mount sh -euc 'mount --bind "$1" "$2"; shift 2
        apt-get install --yes --no-install-recommends "$@"' sh "$refusal" "$policy" "$@"
else
    get install "$@"
fi
for unit in $units; do
    if [ -e "/lib/systemd/system/$unit" ] && command -v systemctl >/dev/null; then
        systemctl --quiet disable "$unit"
    fi
done
"#;

const PYTHON: &str = "target/venv/bin/python";

/// Carries the log of a cluster; a peer as well.
const ETCD: Need =
    Need { name: "etcd-server", check: &["etcd", "--version"], from: Client::Apt(&["etcd-server"]) };

/// What `cargo xtask test` needs.
pub(crate) const FOR_TESTS: &[Need] = &[
    ETCD,
    Need {
        name: "cargo-nextest",
        check: &["cargo", "nextest", "--version"],
        // Without its self-update (an HTTP client and TLS) nextest builds in much less time.
        from: Client::Cargo(&[
            "--no-default-features",
            "--features",
            "default-no-update",
            "cargo-nextest@0.9.143",
        ]),
    },
    // A network, users and file systems of the tests' own.
    Need { name: "iproute2", check: &["ip", "-V"], from: Client::Apt(&["iproute2"]) },
    Need { name: "util-linux", check: &["setpriv", "--version"], from: Client::Apt(&["util-linux"]) },
    // Judges the unit that `tenure install` writes; nothing is started.
    Need { name: "systemd", check: &["systemd-analyze", "--version"], from: Client::Apt(&["systemd"]) },
    // Debian's Python comes without what makes an environment of one's own.
    Need {
        name: "python3-venv",
        check: &["python3", "-c", "import ensurepip, venv"],
        from: Client::Apt(&["python3", "python3-venv"]),
    },
    // Hold the daemon against its own OpenAPI document, and the document against OpenAPI.
    Need {
        name: "schemathesis",
        check: &["target/venv/bin/schemathesis", "--version"],
        from: Client::Pip("schemathesis==4.32.5"),
    },
    Need {
        name: "openapi-spec-validator",
        check: &["target/venv/bin/openapi-spec-validator", "--version"],
        from: Client::Pip("openapi-spec-validator==0.9.0"),
    },
    // The dashboard, as people see it. What fits a page depends on its letters.
    Need {
        name: "fonts-liberation",
        check: &[
            "sh",
            "-c",
            "dpkg -s fonts-liberation 2>/dev/null | grep -q '^Status: install ok installed'",
        ],
        from: Client::Apt(&["fonts-liberation"]),
    },
    Need { name: "chromium", check: &["chromium", "--version"], from: Client::Apt(&["chromium"]) },
    Need {
        name: "chromium-driver",
        check: &["chromedriver", "--version"],
        from: Client::Apt(&["chromium-driver"]),
    },
    // Console blocks of the documents use them.
    Need { name: "curl", check: &["curl", "--version"], from: Client::Apt(&["curl"]) },
    Need { name: "jq", check: &["jq", "--version"], from: Client::Apt(&["jq"]) },
    Need { name: "openssl", check: &["openssl", "version"], from: Client::Apt(&["openssl"]) },
    // mDNS as others speak it, each in a network namespace of a test.
    Need { name: "dbus", check: &["dbus-daemon", "--version"], from: Client::Apt(&["dbus"]) },
    Need {
        name: "avahi-daemon",
        check: &["avahi-daemon", "--version"],
        from: Client::Apt(&["avahi-daemon"]),
    },
    Need { name: "avahi-utils", check: &["avahi-browse", "--version"], from: Client::Apt(&["avahi-utils"]) },
    Need {
        name: "zeroconf",
        check: &[PYTHON, "-c", "import zeroconf; assert zeroconf.__version__ == '0.153.0'"],
        from: Client::Pip("zeroconf==0.153.0"),
    },
    // Polling through Redis, beside a program as they were before this one. Each test starts a server of its own.
    Need {
        name: "redis-server",
        check: &["redis-server", "--version"],
        from: Client::Apt(&["redis-server"]),
    },
    Need { name: "redis-tools", check: &["redis-cli", "--version"], from: Client::Apt(&["redis-tools"]) },
    Need {
        name: "redis for Python",
        check: &[PYTHON, "-c", "import redis; assert redis.__version__ == '8.1.0'"],
        from: Client::Pip("redis==8.1.0"),
    },
];

/// What `cargo xtask bench peers` measures beside us. Each run starts servers of its own, in directories of its own.
pub(crate) const FOR_PEERS: &[Need] = &[
    ETCD,
    // Debian keeps its programs beside the path, by version.
    Need {
        name: "postgresql",
        check: &["sh", "-c", "command -v initdb || ls /usr/lib/postgresql/*/bin/initdb"],
        from: Client::Apt(&["postgresql"]),
    },
    // Only what Java runs: the service is another package.
    Need {
        name: "zookeeper",
        check: &["sh", "-c", "java -version && test -e /usr/share/java/zookeeper.jar"],
        from: Client::Apt(&["default-jre-headless", "zookeeper"]),
    },
];

/// What `cargo xtask instructions` needs.
pub(crate) const FOR_INSTRUCTIONS: &[Need] =
    &[Need { name: "valgrind", check: &["valgrind", "--version"], from: Client::Apt(&["valgrind"]) }];

/// What `cargo xtask mutants` needs.
pub(crate) const FOR_MUTANTS: &[Need] = &[Need {
    name: "cargo-mutants",
    check: &["cargo", "mutants", "--version"],
    from: Client::Cargo(&["cargo-mutants@27.1.0"]),
}];

/// What `cargo xtask deny` needs.
pub(crate) const FOR_DENY: &[Need] = &[Need {
    name: "cargo-deny",
    check: &["cargo", "deny", "--version"],
    from: Client::Cargo(&["cargo-deny@0.20.2"]),
}];

/// Installs whatever is missing, and remembers that nothing is.
pub(crate) fn provide(needs: &[Need]) -> Result<()> {
    let stamp = Stamp::of(needs);
    if stamp.is_there() {
        return Ok(());
    }
    let missing: Vec<&Need> = needs.iter().filter(|need| !is_there(need)).collect();
    let lines = installs(&missing);
    if !lines.is_empty() {
        eprintln!("missing, and about to be installed:");
        missing.iter().for_each(|need| eprintln!("  {}", described(need)));
    }
    for line in &lines {
        shell::run(&mut command(line)).context("what is listed above is needed")?;
    }
    if let Some(need) = missing.iter().find(|need| !is_there(need)) {
        bail!("{} was installed and still does not run", need.name);
    }
    stamp.leave()
}

/// The command lines that install what is missing, each client asked once. Packages of Debian first: the others need them.
fn installs<'a>(missing: &[&'a Need]) -> Vec<Vec<&'a str>> {
    let mut lines: Vec<Vec<&str>> = Vec::new();
    let apt = missing.iter().flat_map(|need| match need.from {
        Client::Apt(packages) => packages,
        Client::Pip(_) | Client::Cargo(_) => &[],
    });
    let apt: Vec<&str> = apt.copied().collect();
    if !apt.is_empty() {
        lines.push([&["sh", "-c", APT, "sh"], apt.as_slice()].concat());
    }
    let pip = missing.iter().filter_map(|need| match need.from {
        Client::Pip(package) => Some(package),
        Client::Apt(_) | Client::Cargo(_) => None,
    });
    let pip: Vec<&str> = pip.collect();
    if !pip.is_empty() {
        lines.push(vec!["python3", "-m", "venv", "target/venv"]);
        lines.push([&["target/venv/bin/pip", "install", "--quiet"], pip.as_slice()].concat());
    }
    lines.extend(missing.iter().filter_map(|need| match need.from {
        Client::Cargo(arguments) => Some([&["cargo", "install", "--locked"], arguments].concat()),
        Client::Apt(_) | Client::Pip(_) => None,
    }));
    lines
}

fn described(need: &Need) -> String {
    match need.from {
        Client::Apt(packages) => format!("{}: Debian package, needs root", packages.join(", ")),
        Client::Pip(package) => format!("{package}: Python package, into target/venv"),
        Client::Cargo(_) => format!("{}: by cargo install", need.name),
    }
}

/// Says that nothing was missing on this machine, so that it is not asked again.
struct Stamp {
    path: PathBuf,
    text: String,
}

impl Stamp {
    fn of(needs: &[Need]) -> Self {
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let names: Vec<String> = needs.iter().map(described).collect();
        let file = format!("needs-{}", needs.first().map_or("none", |need| need.name));
        Self {
            path: shell::root().join("target").join(file),
            text: format!("{}\n{}\n", machine.trim(), names.join("\n")),
        }
    }

    fn is_there(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
    }

    fn leave(&self) -> Result<()> {
        fs::create_dir_all(shell::root().join("target"))?;
        fs::write(&self.path, &self.text).with_context(|| format!("cannot write {}", self.path.display()))
    }
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

    const fn need(name: &'static str, from: Client) -> Need {
        Need { name, check: &["sh", "-c", "exit 1"], from }
    }

    #[test]
    fn each_client_is_asked_once_and_debian_first() {
        let needs = [
            need("tool", Client::Cargo(&["tool@1"])),
            need("b", Client::Pip("b==2")),
            need("a", Client::Apt(&["a", "a-data"])),
            need("c", Client::Apt(&["c"])),
            need("d", Client::Pip("d==4")),
        ];
        let lines = installs(&needs.iter().collect::<Vec<_>>());
        let lines: Vec<String> = lines.iter().map(|line| line.join(" ").replace(APT, "APT")).collect();
        assert_eq!(
            lines,
            [
                "sh -c APT sh a a-data c",
                "python3 -m venv target/venv",
                "target/venv/bin/pip install --quiet b==2 d==4",
                "cargo install --locked tool@1",
            ]
        );
        assert_eq!(installs(&[]), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn an_install_that_fails_is_a_failure() {
        let error = provide(&[need("tool", Client::Cargo(&["--no-such-flag"]))]).unwrap_err();
        assert_eq!(error.to_string(), "what is listed above is needed");
    }

    #[test]
    fn a_stamp_is_for_one_list_on_one_machine() {
        let [one, other] =
            [["x==1"], ["x==2"]].map(|[package]| Stamp::of(&[need("x", Client::Pip(package))]));
        assert_eq!(one.path, other.path);
        assert_ne!(one.text, other.text);
    }

    /// A machine on which the script runs: commands that write down what is asked of them, and nothing else of its own.
    struct Machine {
        dir: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Self {
            let machine = Self { dir: tempfile::tempdir().unwrap() };
            for dir in ["bin", "units", "target"] {
                fs::create_dir(machine.path(dir)).unwrap();
            }
            // Nothing else of this machine is found.
            for tool in ["sh", "mkdir", "mktemp", "rm", "chmod", "cp", "touch"] {
                std::os::unix::fs::symlink(format!("/bin/{tool}"), machine.path("bin").join(tool)).unwrap();
            }
            machine.program("id", "echo 0");
            machine.program("unshare", "exit 1");
            machine.program("systemctl", r#"echo "systemctl $*" >>asked"#);
            machine.program(
                "apt-get",
                r#"
                case "$*" in
                    update) touch lists;;
                    *--simulate*) test -e lists; exit;;
                    *) test -e policy && touch units/redis-server.service; test ! -e broken || exit 1;;
                esac
                echo "apt-get $*" >>asked"#,
            );
            machine
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn program(&self, name: &str, text: &str) {
            use std::os::unix::fs::PermissionsExt as _;
            let path = self.path("bin").join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        /// Asks for two packages: whether that worked, and what was asked of the machine.
        fn install(&self) -> (bool, Vec<String>) {
            let script =
                APT.replace("/usr/sbin/policy-rc.d", "policy").replace("/lib/systemd/system", "units");
            assert!(!script.contains("=/") && !script.contains("\"/"), "nothing of this machine is written");
            let mut command = Command::new("/bin/sh");
            command
                .current_dir(self.dir.path())
                .env("PATH", self.path("bin"))
                .args(["-c", &script, "sh", "a", "b"]);
            let worked = command.output().unwrap().status.success();
            assert!(
                !self.path("policy").exists() && fs::read_dir(self.path("target")).unwrap().next().is_none()
            );
            let asked = fs::read_to_string(self.path("asked")).unwrap_or_default();
            (worked, asked.lines().map(str::to_owned).collect())
        }
    }

    const INSTALL: &str = "apt-get install a b --yes --no-install-recommends";
    const DISABLE: &str = "systemctl --quiet disable redis-server.service";

    #[test]
    fn packages_are_installed_together_and_lists_updated_only_where_they_lack_one() {
        let machine = Machine::new();
        assert_eq!(
            machine.install(),
            (true, ["apt-get update", INSTALL, DISABLE].map(str::to_owned).to_vec())
        );
        fs::remove_file(machine.path("asked")).unwrap();
        // The service is the machine's by now: it stays as it is.
        assert_eq!(machine.install(), (true, vec![INSTALL.to_owned()]));
    }

    #[test]
    fn who_is_not_root_or_has_no_systemd_is_told_so_or_does_without() {
        let machine = Machine::new();
        machine.program("id", "echo 1000");
        assert_eq!(machine.install(), (false, Vec::new()));
        let machine = Machine::new();
        fs::remove_file(machine.path("bin/systemctl")).unwrap();
        let (worked, asked) = machine.install();
        assert!(worked && asked.contains(&INSTALL.to_owned()), "{asked:?}");
    }

    #[test]
    fn an_installer_that_fails_leaves_no_policy_behind() {
        let machine = Machine::new();
        fs::write(machine.path("broken"), "").unwrap();
        assert!(!machine.install().0);
    }
}
