//! What the built-in rules find, and what they leave alone.

use super::*;

/// A rule, a text, and the secret in it: the only thing that goes.
const FOUND: &[(&str, &str, &str)] = &[
    ("api_key", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPx", "wJalrXUtnFEMI/K7MDENG/bPx"),
    ("api_key", "aws_secret_access_key = wJalrXUtnFEMI/K7+DENG", "wJalrXUtnFEMI/K7+DENG"),
    ("api_key", "export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("api_key", "PASSWORD=\"two words\"", "two words"),
    ("api_key", "password: 'two words, and more'", "two words, and more"),
    ("api_key", "\"client_secret\": \"abcdefgh-1234\"", "abcdefgh-1234"),
    ("api_key", "x-api-key: abcdefgh1234", "abcdefgh1234"),
    ("api_key", "DB_PASSWD=hunter2hunter2", "hunter2hunter2"),
    ("api_key", "AccountKey=abcdefgh+/1234==", "abcdefgh+/1234=="),
    ("api_key", "glpat-abcdefghij0123456789", "glpat-abcdefghij0123456789"),
    (
        "api_key",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    ),
    ("api_key", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh", "hf_abcdefghijklmnopqrstuvwxyzabcdefgh"),
    (
        "api_key",
        "call_ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    ),
    ("api_key", "call_sk-abcdefghijklmnop", "sk-abcdefghijklmnop"),
    ("api_key", "toolu_AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    (
        "api_key",
        "SG.abcdefghijklmnopqrst.uvwxyz0123456789",
        "SG.abcdefghijklmnopqrst.uvwxyz0123456789",
    ),
    (
        "api_key",
        "curl https://hooks.slack.com/services/T0000/B0000/XXXXyyyy",
        "T0000/B0000/XXXXyyyy",
    ),
    ("bearer_token", "Authorization: Basic YWRhOnBhc3M=", "YWRhOnBhc3M="),
    ("bearer_token", "curl -H 'Authorization: token abcdef123'", "abcdef123"),
    ("bearer_token", "\"authorization\": \"Basic YWRhOnBhc3M=\"", "YWRhOnBhc3M="),
    ("password", "postgres://ada:pw@db:5432/box", "pw"),
    ("password", "redis://:s3cr3t@cache", "s3cr3t"),
    ("password", "mysql://ada:p@ss@db/box", "p@ss"),
    ("password", "git clone https://ada:hunter2@git.example.org/x.git", "hunter2"),
    ("password", "curl -s -u ada:hunter2 https://a.org", "hunter2"),
    ("password", "curl --user \"ada:two words\" https://a.org", "two words"),
    (
        "private_key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
];

/// What looks a little like one.
const LEFT: &[&str] = &[
    "docker run -u 1000:1000 --rm box",
    "chown ada:staff box",
    "http://localhost:8080/@scope/package",
    "https://example.org/a:b@c",
    "git@github.com:ada/box.git",
    "the basic authorization of a bearer",
    "max_tokens: 4096",
    "\"secret\": true",
    "token = next()",
    "tokens: 12,345,678",
    "fn password(&self) -> &str",
    "let passwords = read(path)?;",
    "users_pk_constraint",
    "npm_config_cache",
    "hf_hub_download",
    "keys: [\"a\", \"b\"]",
    "PWD=/srv/ada/projects/box",
    "https://hooks.slack.com/services",
    "primary_key = account_id_of_row",
];

#[test]
fn common_forms_are_found_and_nothing_else_goes() {
    for (rule, text, secret) in FOUND {
        let done = run("", &finished(&format!("see {text} ok")));
        let body = codec::decode("tool_finished", EVENT_SCHEMA, &done.event.body).unwrap();
        let EventBody::ToolFinished(it) = body else { panic!("another event") };
        let expected = text.replace(secret, &marker(rule, secret.as_bytes()));
        assert_eq!(it.output.preview(), format!("see {expected} ok"));
        assert_eq!(done.left, [""; 0], "{text}");
        // What was redacted is not redacted again.
        assert_eq!(run("", &EventBody::ToolFinished(it)).pointers, [""; 0], "{text}");
    }
    for text in LEFT {
        assert_eq!(run("", &finished(text)).pointers, [""; 0], "{text}");
    }
}

/// A name or an id stays, but it is told.
#[test]
fn a_key_in_an_id_is_told() {
    let EventBody::ModelReplied(mut reply) = call("look", "{}") else { panic!("another event") };
    reply.tool_calls[0].wire_id = "call_ghp_abcdefghijklmnopqrstuvwxyz0123456789".into();
    assert_eq!(run("", &reply.into()).left, ["/tool_calls/0/wire_id"]);
}
