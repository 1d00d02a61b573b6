//! Which keys of this server an imported session sends, and where to.
//!
//! A definition names an environment variable of the server and the address that is sent what it
//! holds. Whoever starts a session here chooses both; the author of a file must not.

use std::collections::BTreeSet;
use std::fmt;
use std::iter;

use stepwell_core::Agent;
use stepwell_core::event::EventBody;
use tonic::Status;

use crate::agent_file::{self, ModelDefaults};
use crate::api::Api;
use crate::status;

/// The key in an environment variable is sent to an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyUse {
    variable: String,
    address: String,
}

impl KeyUse {
    fn new(variable: &str, address: &str) -> Self {
        let address = address.trim().trim_end_matches('/').to_owned();
        Self { variable: variable.to_owned(), address }
    }
}

impl fmt::Display for KeyUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, address } = self;
        write!(f, "the key in this server's environment variable {variable:?} to {address:?}")
    }
}

/// Who may be sent which key.
#[derive(Debug)]
pub(super) enum Allowed {
    /// Whoever the file says: the caller trusts it.
    All,
    /// What the server's settings and its stored agents name.
    These(BTreeSet<KeyUse>),
}

impl Allowed {
    /// What is known here.
    pub(super) async fn here(api: &Api) -> Result<Self, Status> {
        let records = api.engine.store().agents().await.map_err(|error| status::store(&error))?;
        let catalogue = api.catalogue().await?;
        let mut uses: BTreeSet<KeyUse> = of_defaults(&api.model_defaults).collect();
        for record in records {
            // One that cannot be used any more names nothing.
            let read = agent_file::read(&record.definition, &catalogue, &api.model_defaults);
            uses.extend(read.iter().flat_map(of_agent));
        }
        Ok(Self::These(uses))
    }

    /// What an event's definition sends without leave.
    pub(super) fn refused(&self, body: &EventBody) -> Option<KeyUse> {
        match self {
            Self::All => None,
            Self::These(known) => of_agent(body.agent()?).find(|it| !known.contains(it)),
        }
    }
}

fn of_defaults(defaults: &ModelDefaults) -> impl Iterator<Item = KeyUse> {
    let variable = defaults.api_key_env.iter();
    variable.flat_map(|variable| {
        let addresses = defaults.base_url.iter().chain(&defaults.replicas);
        addresses.map(|address| KeyUse::new(variable, address))
    })
}

fn of_agent(agent: &Agent) -> impl Iterator<Item = KeyUse> {
    let model = &agent.model;
    let own = (&model.api_key_env, &model.base_url, &model.replicas);
    let fallbacks = model.fallbacks.iter().map(|it| (&it.api_key_env, &it.base_url, &it.replicas));
    iter::once(own).chain(fallbacks).flat_map(|(variable, address, replicas)| {
        variable.iter().flat_map(move |variable| {
            let addresses = iter::once(address).chain(replicas);
            addresses.map(|address| KeyUse::new(variable, address))
        })
    })
}

#[cfg(test)]
mod tests {
    use stepwell_core::agent::{FallbackModel, ModelSpec};

    use super::*;

    fn uses(of: impl Iterator<Item = KeyUse>) -> Vec<(String, String)> {
        of.map(|it| (it.variable, it.address)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, to)| ((*key).to_owned(), (*to).to_owned())).collect()
    }

    #[test]
    fn every_address_that_is_sent_a_key_counts() {
        let catalogue = agent_file::Catalogue::new(std::iter::empty());
        let definition = "name = \"a\"\ninstructions = \"Help.\"\n[model]\nname = \"m\"\n\
                          base_url = \"http://h/v1\"\n";
        let read = agent_file::read(definition, &catalogue, &ModelDefaults::default());
        let mut agent = read.unwrap();
        assert_eq!(uses(of_agent(&agent)), []);
        agent.model = ModelSpec {
            replicas: vec!["http://r/v1/".into()],
            api_key_env: Some("KEY".into()),
            ..ModelSpec::new("m", "http://h/v1/")
        };
        let fallback = |base_url: &str, key: Option<&str>| FallbackModel {
            after_attempts: 1,
            name: "f".into(),
            base_url: base_url.into(),
            replicas: Vec::new(),
            api_key_env: key.map(str::to_owned),
        };
        agent.model.fallbacks =
            vec![fallback("http://f", Some("HOME")), fallback("http://none", None)];
        let expected = [("KEY", "http://h/v1"), ("KEY", "http://r/v1"), ("HOME", "http://f")];
        assert_eq!(uses(of_agent(&agent)), pairs(&expected));
    }

    #[test]
    fn the_settings_of_the_server_allow_its_own_addresses() {
        let defaults = ModelDefaults {
            name: None,
            base_url: Some("http://h/v1".into()),
            replicas: vec!["http://r/v1".into()],
            api_key_env: Some("KEY".into()),
        };
        let expected = pairs(&[("KEY", "http://h/v1"), ("KEY", "http://r/v1")]);
        assert_eq!(uses(of_defaults(&defaults)), expected);
        let without = ModelDefaults { api_key_env: None, ..defaults };
        assert_eq!(uses(of_defaults(&without)), []);
    }
}
