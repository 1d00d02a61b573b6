//! The config file, and how flags, environment and file become settings.
//!
//! Order: a flag wins, then the environment, then the file, then the default. Flags and environment
//! are read by [`crate::args`]; here the file and the defaults are added.
//!
//! Invariant: nothing in the file is ignored. An unknown key is an error with line and column.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Deserializer, de};
use stepwell_core::account::Price;
use stepwell_server::agent_file::ModelDefaults;

use crate::args::parse::{address, filed_address, filed_addresses, host_names};
use crate::args::{
    AgainstArgs, DoctorArgs, LISTEN_DEFAULT, LimitArgs, SERVER_DEFAULT, ServeArgs, WorkerArgs,
};
use crate::exit::UsageError;
use crate::out::Paint;
use crate::view;

/// Highest price of a million tokens.
const PRICE_MAX: f64 = 1e9;

/// Tool calls that a worker runs at the same time when nothing is said.
const CONCURRENCY_DEFAULT: u32 = 8;

/// A config file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// Address to listen on.
    #[serde(default, deserialize_with = "listen")]
    listen: Option<SocketAddr>,
    /// Names that a server may be asked by.
    #[serde(default, deserialize_with = "host_names")]
    allow_hosts: Vec<String>,
    /// Data folder.
    data: Option<PathBuf>,
    /// Folder of the workspaces.
    workspaces: Option<PathBuf>,
    /// Calls that a worker runs at the same time.
    concurrency: Option<u32>,
    /// Model server for agents that name none.
    #[serde(default, deserialize_with = "filed_address")]
    model_url: Option<String>,
    /// Further servers of the same model.
    #[serde(default, deserialize_with = "filed_addresses")]
    model_replicas: Vec<String>,
    /// Model for agents that name none.
    model: Option<String>,
    /// Environment variable with the key.
    api_key_env: Option<String>,
    /// Server that commands talk to.
    server: Option<String>,
    /// What tokens cost, by the model's name.
    #[serde(default)]
    prices: BTreeMap<String, PriceSection>,
    /// Limits of the engine.
    #[serde(default)]
    limits: LimitsSection,
}

/// Prices for a million tokens, in the currency that its owner thinks in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceSection {
    #[serde(deserialize_with = "micros")]
    prompt: u64,
    /// The prompt's price when not given.
    #[serde(default, deserialize_with = "maybe_micros")]
    cached: Option<u64>,
    /// The prompt's price when not given.
    #[serde(default, deserialize_with = "maybe_micros")]
    created: Option<u64>,
    #[serde(deserialize_with = "micros")]
    completion: u64,
}

impl From<PriceSection> for Price {
    fn from(it: PriceSection) -> Self {
        Self {
            prompt: it.prompt,
            cached: it.cached.unwrap_or(it.prompt),
            created: it.created.unwrap_or(it.prompt),
            completion: it.completion,
        }
    }
}

/// Money in millionths.
fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    price_micros(f64::deserialize(deserializer)?)
        .ok_or_else(|| de::Error::custom(format!("a price is 0 to {PRICE_MAX}")))
}

/// A price in millionths; `None` for what is none.
pub(crate) fn price_micros(amount: f64) -> Option<u64> {
    (0.0..=PRICE_MAX).contains(&amount).then(|| (amount * 1e6).round() as u64)
}

fn maybe_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    micros(deserializer).map(Some)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    active_sessions: Option<u32>,
    model_calls: Option<u32>,
    #[serde(default, deserialize_with = "duration")]
    drain: Option<Duration>,
    import_bytes: Option<u64>,
}

/// Every key, for "did you mean".
const KEYS: [&str; 20] = [
    "listen",
    "allow_hosts",
    "data",
    "workspaces",
    "concurrency",
    "model_url",
    "model_replicas",
    "model",
    "api_key_env",
    "server",
    "prices",
    "prompt",
    "cached",
    "created",
    "completion",
    "limits",
    "active_sessions",
    "model_calls",
    "drain",
    "import_bytes",
];

fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    address(&text).map(Some).map_err(de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    read_duration(&text).map(Some).map_err(de::Error::custom)
}

fn read_duration(text: &str) -> Result<Duration, String> {
    stepwell_server::agent_file::read_duration_ms(text).map(Duration::from_millis)
}

/// What the surroundings say about folders; an argument, so that tests have their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// `$HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME`.
    pub(crate) config_home: Option<PathBuf>,
    /// `$XDG_DATA_HOME`.
    pub(crate) data_home: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let folder = |name: &str| {
            let value: Option<OsString> = std::env::var_os(name);
            value.filter(|it| !it.is_empty()).map(PathBuf::from).filter(|it| it.is_absolute())
        };
        Self {
            home: folder("HOME"),
            config_home: folder("XDG_CONFIG_HOME"),
            data_home: folder("XDG_DATA_HOME"),
        }
    }

    fn config_file(&self) -> Option<PathBuf> {
        let config_home =
            self.config_home.clone().or_else(|| self.home.as_ref().map(|it| it.join(".config")));
        config_home.map(|it| it.join("stepwell").join("config.toml"))
    }

    fn data(&self) -> Option<PathBuf> {
        let data_home =
            self.data_home.clone().or_else(|| self.home.as_ref().map(|it| it.join(".local/share")));
        data_home.map(|it| it.join("stepwell"))
    }
}

/// The config file that was read, and the surroundings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// Where it was read from; `None` when there is none.
    pub(crate) path: Option<PathBuf>,
    file: ConfigFile,
    surroundings: Surroundings,
}

/// Limits of the engine that were set; the engine has defaults for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EngineLimits {
    /// Sessions in memory.
    pub(crate) active_sessions_max: Option<usize>,
    /// Model calls in flight.
    pub(crate) model_calls_max: Option<usize>,
    /// Time to end running work.
    pub(crate) drain: Option<Duration>,
    /// Largest file of an import, in bytes.
    pub(crate) import_bytes_max: Option<u64>,
}

/// What a server needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeSettings {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Names that it may be asked by, beside `localhost` and addresses.
    pub(crate) allow_hosts: Vec<String>,
    /// Its data folder.
    pub(crate) data: PathBuf,
    /// Folder of the workspaces.
    pub(crate) workspaces: PathBuf,
    /// Calls that the worker of this process runs at the same time; `None` for no worker.
    pub(crate) worker_concurrency: Option<u32>,
    /// Model server for agents that name none.
    pub(crate) model_url: Option<String>,
    /// Further servers of the same model.
    pub(crate) model_replicas: Vec<String>,
    /// Model for agents that name none.
    pub(crate) model: Option<String>,
    /// Environment variable with the key.
    pub(crate) api_key_env: Option<String>,
    /// Take a data folder on a network file system.
    pub(crate) allow_network_file_system: bool,
    /// What tokens cost, by the model's name.
    pub(crate) prices: BTreeMap<String, Price>,
    /// Limits of the engine.
    pub(crate) limits: EngineLimits,
}

/// What a worker needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerSettings {
    /// Address of the server.
    pub(crate) server: String,
    /// Name of the worker; `None` for one made of host and process.
    pub(crate) name: Option<String>,
    /// Folder of the workspaces.
    pub(crate) workspaces: PathBuf,
    /// Calls that it runs at the same time.
    pub(crate) concurrency: u32,
}

/// What `doctor` looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoctorSettings {
    /// Data folder.
    pub(crate) data: PathBuf,
    /// Where a server would listen; `None` when the one that was named is on another machine.
    pub(crate) listen: Option<SocketAddr>,
    /// Model server.
    pub(crate) model_url: Option<String>,
    /// Model that agents use by default.
    pub(crate) model: Option<String>,
    /// Environment variable with the key.
    pub(crate) api_key_env: Option<String>,
}

impl Config {
    /// Reads the file at `path`, or the one in the usual place if there is one.
    pub(crate) fn load(path: Option<&Path>, surroundings: Surroundings) -> anyhow::Result<Self> {
        let usual = surroundings.config_file();
        let Some(from) = path.or(usual.as_deref()) else {
            return Ok(Self { surroundings, ..Self::default() });
        };
        let text = match std::fs::read_to_string(from) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_none() => {
                return Ok(Self { surroundings, ..Self::default() });
            }
            Err(error) => {
                return Err(error)
                    .context(format!("cannot read the config file {}", from.display()));
            }
        };
        let file = read(&text).map_err(|problem| {
            let shown =
                view::source::annotate(&from.display().to_string(), &text, &problem, Paint::NONE);
            anyhow::anyhow!("the config file is wrong\n{shown}")
        })?;
        Ok(Self { path: Some(from.to_owned()), file, surroundings })
    }

    /// The server that commands talk to.
    pub(crate) fn server(&self, flag: Option<&str>) -> String {
        let chosen = flag.filter(|it| !it.is_empty()).or(self.file.server.as_deref());
        with_scheme(chosen.unwrap_or(SERVER_DEFAULT))
    }

    /// Settings of `serve`.
    pub(crate) fn serve(&self, args: &ServeArgs) -> anyhow::Result<ServeSettings> {
        let data = self.data(args.data.as_deref())?;
        let concurrency = args.concurrency.or(self.file.concurrency).unwrap_or(CONCURRENCY_DEFAULT);
        let (given, filed) = (&args.allow_hosts, &self.file.allow_hosts);
        let hosts = if given.is_empty() { filed } else { given };
        Ok(ServeSettings {
            listen: self.listen(args.listen)?,
            allow_hosts: hosts.clone(),
            workspaces: self.workspaces(args.workspaces.as_deref(), &data),
            data,
            worker_concurrency: (!args.no_worker).then_some(concurrency),
            model_url: chosen(args.model_url.as_ref(), self.file.model_url.as_ref()),
            model_replicas: self.model_replicas(args),
            model: args.model.clone().or_else(|| self.file.model.clone()),
            api_key_env: args.api_key_env.clone().or_else(|| self.file.api_key_env.clone()),
            allow_network_file_system: args.allow_network_file_system,
            prices: self.prices(),
            limits: self.limits(&args.limits)?,
        })
    }

    /// What tokens cost, by the model's name.
    pub(crate) fn prices(&self) -> BTreeMap<String, Price> {
        self.file.prices.iter().map(|(model, it)| (model.clone(), (*it).into())).collect()
    }

    /// What agents that name no model are given.
    pub(crate) fn model_defaults(&self, args: &AgainstArgs) -> ModelDefaults {
        let is_filed = args.model_url.as_ref().is_none_or(String::is_empty);
        let replicas = if is_filed { self.file.model_replicas.clone() } else { Vec::new() };
        ModelDefaults {
            replicas,
            name: chosen(args.model.as_ref(), self.file.model.as_ref()),
            base_url: chosen(args.model_url.as_ref(), self.file.model_url.as_ref()),
            api_key_env: chosen(args.api_key_env.as_ref(), self.file.api_key_env.as_ref()),
        }
    }

    /// Replicas belong to the address that they stand beside: those of the file to the file's.
    fn model_replicas(&self, args: &ServeArgs) -> Vec<String> {
        match args.model_url.as_deref() {
            Some("") | None => self.file.model_replicas.clone(),
            Some(_) => args.model_replica.clone(),
        }
    }

    /// Settings of `worker`, for the server that the global arguments name.
    pub(crate) fn worker(&self, args: &WorkerArgs, server: &str) -> anyhow::Result<WorkerSettings> {
        let workspaces = match args.workspaces.as_deref().or(self.file.workspaces.as_deref()) {
            Some(folder) => self.place(folder),
            None => self.data(None)?.join("workspaces"),
        };
        Ok(WorkerSettings {
            server: server.to_owned(),
            name: args.name.clone(),
            workspaces,
            concurrency: args.concurrency.or(self.file.concurrency).unwrap_or(CONCURRENCY_DEFAULT),
        })
    }

    /// Settings of `doctor`, for the server that the global arguments name.
    pub(crate) fn doctor(&self, args: &DoctorArgs, server: &str) -> anyhow::Result<DoctorSettings> {
        let listen = match args.listen.or(self.file.listen) {
            Some(listen) => Some(listen),
            None => address_here(server),
        };
        Ok(DoctorSettings {
            listen,
            data: self.data(args.data.as_deref())?,
            model_url: args.model.clone().or_else(|| self.file.model_url.clone()),
            model: self.file.model.clone(),
            api_key_env: args.api_key_env.clone().or_else(|| self.file.api_key_env.clone()),
        })
    }

    fn listen(&self, flag: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
        match flag.or(self.file.listen) {
            Some(listen) => Ok(listen),
            None => LISTEN_DEFAULT.parse().context("the default address"),
        }
    }

    fn data(&self, flag: Option<&Path>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = flag {
            return Ok(folder.to_owned());
        }
        if let Some(folder) = &self.file.data {
            return Ok(self.place(folder));
        }
        self.surroundings.data().ok_or_else(|| {
            let problem = "where to keep the data is not known, because HOME is not set: \
                           give --data DIR, or set STEPWELL_DATA";
            UsageError(problem.to_owned()).into()
        })
    }

    fn workspaces(&self, flag: Option<&Path>, data: &Path) -> PathBuf {
        match (flag, &self.file.workspaces) {
            (Some(folder), _) => folder.to_owned(),
            (None, Some(folder)) => self.place(folder),
            (None, None) => data.join("workspaces"),
        }
    }

    fn limits(&self, args: &LimitArgs) -> anyhow::Result<EngineLimits> {
        let size = |value: Option<u32>| value.map(|it| it as usize);
        let drain = args.drain.as_deref().map(read_duration).transpose();
        let drain = drain.map_err(|problem| UsageError(format!("--drain: {problem}")))?;
        let file = &self.file.limits;
        Ok(EngineLimits {
            active_sessions_max: size(args.active_sessions.or(file.active_sessions)),
            model_calls_max: size(args.model_calls.or(file.model_calls)),
            drain: drain.or(file.drain),
            import_bytes_max: args.import_bytes.or(file.import_bytes),
        })
    }

    /// A folder of the config file: `~` is the home folder, and what is relative is meant from the
    /// file's own folder, wherever the command is started.
    fn place(&self, folder: &Path) -> PathBuf {
        if let (Ok(rest), Some(home)) = (folder.strip_prefix("~"), &self.surroundings.home) {
            return home.join(rest);
        }
        match self.path.as_deref().and_then(Path::parent) {
            Some(beside) => beside.join(folder),
            None => folder.to_owned(),
        }
    }
}

/// What was given, else what the file says. An empty text comes from a variable that is not set.
fn chosen(given: Option<&String>, filed: Option<&String>) -> Option<String> {
    given.filter(|it| !it.is_empty()).or(filed).cloned()
}

/// `host:7171` means `http://host:7171`.
/// Where a server listens that commands on this machine name so.
fn address_here(server: &str) -> Option<SocketAddr> {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let named = authority.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let listen: SocketAddr = named.as_deref().unwrap_or(authority).parse().ok()?;
    listen.ip().is_loopback().then_some(listen)
}

fn with_scheme(server: &str) -> String {
    let server = server.trim_end_matches('/');
    if server.contains("://") { server.to_owned() } else { format!("http://{server}") }
}

/// Reads a config file; the error says `line L, column C: what`.
fn read(text: &str) -> Result<ConfigFile, String> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        let message = match meant(&message) {
            Some(key) => format!("{message}; did you mean `{key}`?"),
            None => message,
        };
        let Some(span) = error.span() else { return message };
        let before = text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: {message}")
    })
}

/// The key that an "unknown field `x`" most likely stands for.
fn meant(message: &str) -> Option<&'static str> {
    let wrong = message.strip_prefix("unknown field `")?.split('`').next()?;
    let wrong = wrong.replace('-', "_");
    let near = KEYS.iter().map(|key| (strsim::damerau_levenshtein(&wrong, key), *key)).min()?;
    (near.0 * 3 <= near.1.len()).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> Surroundings {
        Surroundings { home: Some("/srv/ada".into()), ..Surroundings::default() }
    }

    fn config(text: &str) -> Config {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let mut config = Config::load(Some(&path), surroundings()).unwrap();
        config.path = Some("/etc/stepwell/config.toml".into());
        config
    }

    const FULL: &str = r#"
listen = "0.0.0.0:9000"
allow_hosts = ["gpu"]
data = "data"
workspaces = "~/work"
concurrency = 3
model_url = "http://gpu:8000/v1"
model_replicas = ["http://gpu2:8000/v1"]
model = "qwen3"
api_key_env = "KEY"
server = "gpu:9000"

[limits]
import_bytes = 1000
active_sessions = 10
model_calls = 20
drain = "1m30s"

[prices.qwen3]
prompt = 0.15
cached = 0.015
completion = 0.60
"#;

    #[test]
    fn the_file_fills_what_flags_leave_open() {
        let settings = config(FULL).serve(&ServeArgs::default()).unwrap();
        assert_eq!(
            settings,
            ServeSettings {
                listen: "0.0.0.0:9000".parse().unwrap(),
                allow_hosts: vec!["gpu".into()],
                data: "/etc/stepwell/data".into(),
                workspaces: "/srv/ada/work".into(),
                worker_concurrency: Some(3),
                model_url: Some("http://gpu:8000/v1".into()),
                model_replicas: vec!["http://gpu2:8000/v1".into()],
                model: Some("qwen3".into()),
                api_key_env: Some("KEY".into()),
                allow_network_file_system: false,
                prices: [(
                    "qwen3".to_owned(),
                    Price {
                        prompt: 150_000,
                        cached: 15_000,
                        created: 150_000,
                        completion: 600_000
                    },
                )]
                .into(),
                limits: EngineLimits {
                    active_sessions_max: Some(10),
                    model_calls_max: Some(20),
                    drain: Some(Duration::from_secs(90)),
                    import_bytes_max: Some(1_000),
                },
            }
        );
        assert_eq!(config(FULL).server(None), "http://gpu:9000");
    }

    #[test]
    fn flags_win() {
        let args = ServeArgs {
            listen: Some("127.0.0.1:1".parse().unwrap()),
            data: Some("here".into()),
            workspaces: Some("there".into()),
            no_worker: true,
            model: Some("other".into()),
            limits: LimitArgs { drain: Some("5s".into()), ..LimitArgs::default() },
            ..ServeArgs::default()
        };
        let settings = config(FULL).serve(&args).unwrap();
        assert_eq!(settings.listen.port(), 1);
        assert_eq!(settings.data, Path::new("here"));
        assert_eq!(settings.workspaces, Path::new("there"));
        assert_eq!(settings.worker_concurrency, None);
        assert_eq!(settings.model.as_deref(), Some("other"));
        assert_eq!(settings.limits.drain, Some(Duration::from_secs(5)));
        assert_eq!(settings.limits.model_calls_max, Some(20));
        assert_eq!(config(FULL).server(Some("https://h/")), "https://h");
    }

    #[test]
    fn without_a_file_there_are_defaults() {
        let config = Config::load(None, surroundings()).unwrap();
        let settings = config.serve(&ServeArgs::default()).unwrap();
        assert_eq!(settings.listen.to_string(), LISTEN_DEFAULT);
        assert_eq!(settings.data, Path::new("/srv/ada/.local/share/stepwell"));
        assert_eq!(settings.workspaces, Path::new("/srv/ada/.local/share/stepwell/workspaces"));
        assert_eq!(settings.worker_concurrency, Some(CONCURRENCY_DEFAULT));
        assert_eq!(config.server(None), SERVER_DEFAULT);
        assert_eq!(config.server(Some("")), SERVER_DEFAULT);
    }

    #[test]
    fn doctor_looks_at_the_port_of_the_server_that_is_named() {
        for (server, listen) in [
            (SERVER_DEFAULT, Some(LISTEN_DEFAULT)),
            ("http://127.0.0.1:7272", Some("127.0.0.1:7272")),
            ("http://localhost:7272/", Some("127.0.0.1:7272")),
            ("http://[::1]:7272", Some("[::1]:7272")),
            ("http://192.0.2.1:7272", None),
            ("http://gpu:7171", None),
            ("https://stepwell.example", None),
        ] {
            let found = address_here(server).map(|it| it.to_string());
            assert_eq!(found.as_deref(), listen, "{server}");
        }
    }

    #[test]
    fn without_a_home_the_data_folder_must_be_given() {
        let config = Config::load(None, Surroundings::default()).unwrap();
        let error = config.serve(&ServeArgs::default()).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("--data"), "{error}");
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let error = Config::load(Some(Path::new("/nowhere/c.toml")), surroundings()).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/c.toml"), "{error:#}");
    }

    #[test]
    fn mistakes_are_named_with_line_and_column() {
        for (text, problem) in [
            ("listen = \"127.0.0.1:1\"\nlisten-addres = 1", "line 2, column 1: unknown field"),
            ("listn = \"x\"", "did you mean `listen`?"),
            ("[limits]\nmodelcalls = 3", "did you mean `model_calls`?"),
            ("listen = \"7171\"", "line 1, column 10: write IP:PORT"),
            ("[limits]\ndrain = \"5\"", "line 2, column 9: `5` has no unit"),
            ("allow_hosts = [\"gpu:1\"]", "without scheme and port"),
            ("model_url = \"gpu:8000\"", "line 1, column 13: it must begin with http://"),
            ("model_replicas = [\"ftp://h\"]", "it must begin with http://"),
            ("concurrency = \"x\"", "line 1, column 15: invalid type"),
            ("[prices.m]\nprompt = -1.0\ncompletion = 1.0", "line 2, column 10: a price is 0 to"),
            ("[prices.m]\nprompt = 1.0", "line 1, column 1: missing field `completion`"),
            ("listen = ", "line 1, column 10: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn every_key_is_known_for_did_you_mean() {
        for line in FULL.lines().filter_map(|line| line.split_once(" = ")) {
            assert!(KEYS.contains(&line.0), "{}", line.0);
        }
    }
}
