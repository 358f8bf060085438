//! `tenure install`: the daemon as a service of the machine, under systemd.

pub(crate) mod system;
pub(crate) mod unit;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tenure_server::{Auth, Tls};

use crate::atomic_file::{Access, directory_of, replace};
use crate::config::{Environment, Flags, MACHINE_CONFIG, MORE_SETTINGS, Settings};
use crate::failure::{Failure, Words, chain};
use crate::printer::Printer;
use unit::{Earlier, FIRST_SETTINGS, SYSUSERS_PATH, UNIT_NAME, UNIT_PATH, Unit, is_user_name, sysusers};

/// Install the daemon as a systemd service
///
/// Writes a systemd unit, creates the daemon's user, writes /etc/tenure/tenure.toml if it does not exist, and starts the
/// service. The unit keeps the flags of `tenure serve` that are given here; a later install without them keeps them too.
/// The command is idempotent.
#[derive(Args)]
#[command(after_help = format!("{MORE_SETTINGS}\n\nExamples:\n  sudo tenure install\n  sudo tenure install --port 7000 --no-mdns"))]
pub(crate) struct Install {
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
#[command(next_help_heading = "Installing")]
struct Options {
    /// Run the daemon as this user; create the user if it does not exist [default: tenure]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Start this program from the unit [default: this program]
    #[arg(long, value_name = "PATH")]
    exec: Option<PathBuf>,
    /// Discard flags and user of an earlier install
    #[arg(long)]
    reset: bool,
    /// Do not start the service
    #[arg(long)]
    no_start: bool,
    /// Write below this directory and run no command, for packages
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print the files and commands without applying them
    #[arg(long)]
    dry_run: bool,
}

/// A file to be written.
struct Planned {
    path: &'static str,
    text: String,
    /// One that is there is left as it is.
    only_if_missing: bool,
}

const USER: &str = "tenure";
const SETTINGS_PATH: &str = "/etc/tenure/tenure.toml";
const MODE: u32 = 0o644;
/// New files get the directory's group, so that the daemon may read what root puts there.
const SETTINGS_DIRECTORY_MODE: u32 = 0o2755;
/// A service does not see what is below these.
const HIDDEN: &[&str] = &["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

impl Install {
    pub(crate) fn run(self, printer: &mut Printer) -> Result<(), Failure> {
        let Self { flags, options } = self;
        if options.root.is_none() && !options.dry_run {
            system::must_be_root("install")?;
        }
        let earlier = fs::read_to_string(options.below(UNIT_PATH)).ok().filter(|_| !options.reset);
        let earlier = earlier.as_deref().and_then(Earlier::of);
        let (earlier_user, flags) = match earlier {
            Some(earlier) => (Some(earlier.user), flags.or(earlier.flags)),
            None => (None, flags),
        };
        let user = options.user.clone().or(earlier_user).unwrap_or_else(|| USER.to_owned());
        if !is_user_name(&user) {
            let words = Words::new(format_args!("{user:?} is not a valid user name"));
            let hint = "at most 31 lower-case letters, digits, - and _, beginning with a letter or _";
            return Err(Failure::Usage(words.hint(hint)));
        }
        let program = options.program()?;
        let settings = options.settings(&flags)?;
        let unit = Unit { program: &program, user: &user, flags: &flags, settings: &settings };
        let planned = [
            Planned { path: SYSUSERS_PATH, text: sysusers(&user), only_if_missing: false },
            Planned { path: SETTINGS_PATH, text: FIRST_SETTINGS.to_owned(), only_if_missing: true },
            Planned { path: UNIT_PATH, text: unit.text(), only_if_missing: false },
        ];
        if options.dry_run {
            return options.show(&planned, printer);
        }
        for directory in unit.own_directories() {
            let shown = directory.display();
            printer.talk(format_args!("note: {shown} must exist and belong to {user}"));
        }
        options.carry_out(&planned, &user, printer)
    }
}

impl Options {
    /// Where a path of the machine is for this install.
    fn below(&self, path: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.trim_start_matches('/')),
            None => PathBuf::from(path),
        }
    }

    fn program(&self) -> Result<PathBuf, Failure> {
        let program = match &self.exec {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(|error| {
                Failure::Unexpected(Words::new(format_args!("cannot find this program's file: {error}")))
            })?,
        };
        if !program.is_absolute() {
            let words = Words::new(format_args!("--exec {} is not an absolute path", program.display()));
            return Err(Failure::Usage(words));
        }
        if HIDDEN.iter().any(|hidden| program.starts_with(hidden)) {
            let shown = program.display();
            let line = Words::new(format_args!("a system service cannot access {shown}"));
            let hint =
                format!("install -m 755 {shown} /usr/local/bin/tenure && /usr/local/bin/tenure install");
            return Err(Failure::Refused(line.hint(hint)));
        }
        Ok(program)
    }

    /// What the daemon will read when it starts. It is better refused now than then.
    fn settings(&self, flags: &Flags) -> Result<Settings, Failure> {
        let mut flags = flags.clone();
        let environment = match &flags.config {
            None => Environment::of_service(&self.below(MACHINE_CONFIG)),
            Some(path) => {
                let path = self.below(&path.display().to_string());
                // The file may come with another package.
                let is_checked = self.root.is_none() || path.exists();
                flags.config = Some(if is_checked { path } else { PathBuf::from("/dev/null") });
                Environment::of_service(Path::new(MACHINE_CONFIG))
            }
        };
        let settings = Settings::load(&flags, &environment)?;
        if self.root.is_none() {
            let tls = settings.tls_files().map(Tls::open).transpose();
            let tls = tls.map_err(|error| Failure::Usage(Words::new(chain(&error))))?;
            Auth::new(settings.auth_settings(tls.as_ref()))
                .map_err(|error| Failure::Usage(Words::new(chain(&error))))?;
            settings.hook_plan().start().map_err(|problem| Failure::Usage(Words::new(problem)))?;
        }
        Ok(settings)
    }

    fn show(&self, planned: &[Planned], printer: &mut Printer) -> Result<(), Failure> {
        let commands = self.commands(true);
        if printer.json() {
            let files: Vec<_> = planned
                .iter()
                .map(|file| json!({"path": self.below(file.path), "text": file.text}))
                .collect();
            return printer.object(&json!({"files": files, "commands": commands}));
        }
        for file in planned {
            let when = if file.only_if_missing { ", unless it exists" } else { "" };
            printer.line(format_args!("### {}{when}", self.below(file.path).display()))?;
            printer.text(&file.text)?;
        }
        printer.line("### then")?;
        commands.iter().try_for_each(|line| printer.line(line.join(" ")))
    }

    fn carry_out(&self, planned: &[Planned], user: &str, printer: &mut Printer) -> Result<(), Failure> {
        let mut files = Vec::new();
        let mut unit_changed = false;
        for file in planned {
            let path = self.below(file.path);
            let changed = self.write(file, &path).map_err(|error| unwritable(&path, &error))?;
            unit_changed |= changed && file.path == UNIT_PATH;
            printer.talk(format_args!("{} {}", if changed { "wrote" } else { "kept" }, path.display()));
            files.push(json!({"path": path, "changed": changed}));
            // The next file's directory gets the user's group.
            if file.path == SYSUSERS_PATH && self.root.is_none() {
                system::provide_user(user)?;
            }
            if file.path == SETTINGS_PATH {
                self.open_settings_directory(user).map_err(|error| unwritable(&path, &error))?;
            }
        }
        let commands = self.commands(unit_changed);
        if commands.is_empty() && self.root.is_none() {
            printer.talk("note: systemd does not run here; the service was not started");
        }
        for line in &commands {
            system::run(line)?;
        }
        if printer.json() {
            printer.object(&json!({"files": files, "commands": commands}))?;
        }
        Ok(())
    }

    /// Whether anything changed.
    fn write(&self, file: &Planned, path: &Path) -> io::Result<bool> {
        match fs::read_to_string(path) {
            Ok(found) if file.only_if_missing || found == file.text => return Ok(false),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
        fs::create_dir_all(directory_of(path))?;
        replace(path, &file.text, Access { mode: MODE, ids: None })?;
        Ok(true)
    }

    fn open_settings_directory(&self, user: &str) -> io::Result<()> {
        let directory = self.below(MACHINE_CONFIG);
        if self.root.is_none()
            && let Some((_, gid)) = system::ids_of(user)
        {
            chown(&directory, None, Some(gid))?;
        }
        // After the group: changing it takes the bit away.
        fs::set_permissions(&directory, fs::Permissions::from_mode(SETTINGS_DIRECTORY_MODE))
    }

    fn commands(&self, unit_changed: bool) -> Vec<Vec<&'static str>> {
        if self.root.is_some() || !(self.dry_run || system::runs_systemd()) {
            return Vec::new();
        }
        let mut commands = vec![vec!["systemctl", "daemon-reload"], vec!["systemctl", "enable", UNIT_NAME]];
        if !self.no_start {
            let verb = if unit_changed { "restart" } else { "start" };
            commands.push(vec!["systemctl", verb, UNIT_NAME]);
        }
        commands
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::Unexpected(Words::new(format_args!("cannot write {}: {error}", path.display())))
}
