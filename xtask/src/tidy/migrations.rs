//! Migrations: numbered without gaps, the same in every store, each with its reason.

use std::collections::BTreeMap;

use super::{File, Finding, Tree};

/// Checks every file below `migrations/<store>/`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut stores: BTreeMap<&str, Vec<Migration<'_>>> = BTreeMap::new();
    for file in &tree.files {
        let Some(inside) = file.path.strip_prefix("migrations/") else { continue };
        let Some((store, name)) = inside.split_once('/') else { continue };
        findings.extend(check_reason(file));
        match Migration::parse(file, name) {
            Some(migration) => stores.entry(store).or_default().push(migration),
            None => findings.push(Finding::new(
                &file.path,
                1,
                "not a migration's name: call it NNNN_what_it_does.sql, small letters and digits",
            )),
        }
    }
    for migrations in stores.values_mut() {
        migrations.sort_by_key(|it| it.number);
        findings.extend(check_numbers(migrations));
    }
    findings.extend(check_same_slugs(&stores));
    findings
}

struct Migration<'a> {
    path: &'a str,
    /// `0001_first`, without the extension.
    stem: &'a str,
    number: usize,
}

impl<'a> Migration<'a> {
    fn parse(file: &'a File, name: &'a str) -> Option<Self> {
        let stem = name.strip_suffix(".sql")?;
        let (number, slug) = stem.split_once('_')?;
        let is_slug = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        if number.len() != 4 || slug.is_empty() || !slug.chars().all(is_slug) {
            return None;
        }
        Some(Self { path: &file.path, stem, number: number.parse().ok()? })
    }
}

fn check_reason(file: &File) -> Option<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let reason = first.strip_prefix("--").unwrap_or_default();
    let message = "the first line does not say why: begin with `-- reason`";
    reason.trim().is_empty().then(|| Finding::new(&file.path, 1, message))
}

/// `migrations` is sorted by number.
fn check_numbers(migrations: &[Migration<'_>]) -> Vec<Finding> {
    let numbered = (1..).zip(migrations);
    let wrong = numbered.filter(|(expected, it)| it.number != *expected);
    let finding = |(expected, it): (usize, &Migration<'_>)| {
        let number = it.number;
        let message = format!(
            "number {number:04} where {expected:04} is next: number migrations from 0001 without \
             gaps or doubles"
        );
        Finding::new(it.path, 1, message)
    };
    // One gap shifts all that follow, so the first finding says it all.
    wrong.map(finding).take(1).collect()
}

fn check_same_slugs(stores: &BTreeMap<&str, Vec<Migration<'_>>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for migration in stores.values().flatten() {
        let has = |others: &[Migration<'_>]| others.iter().any(|it| it.stem == migration.stem);
        for (store, _) in stores.iter().filter(|(_, others)| !has(others)) {
            findings.push(Finding::new(
                migration.path,
                1,
                format!(
                    "migrations/{store}/ has no {}: the same number means the same change in \
                     every store",
                    migration.stem
                ),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    #[track_caller]
    fn check_names(names: &[&str], expected: &[&str]) {
        let files: Vec<_> = names.iter().map(|it| (*it, "-- why\nselect 1;\n")).collect();
        assert_findings(&check(&Tree::of(&files)), expected);
    }

    #[test]
    fn numbers_without_gaps_are_fine() {
        check_names(&["migrations/sqlite/0002_b.sql", "migrations/sqlite/0001_a.sql"], &[]);
    }

    #[test]
    fn a_gap_or_a_double_is_found() {
        let first = "migrations/sqlite/0001_a.sql";
        check_names(&[first, "migrations/sqlite/0003_b.sql"], &["migrations/sqlite/0003_b.sql:1:"]);
        check_names(&[first, "migrations/sqlite/0001_b.sql"], &["migrations/sqlite/0001_b.sql:1:"]);
        check_names(&["migrations/sqlite/0002_a.sql"], &["migrations/sqlite/0002_a.sql:1:"]);
    }

    #[test]
    fn a_name_of_another_form_is_found() {
        for name in ["1_a.sql", "0001-a.sql", "0001_A.sql", "0001_.sql", "notes.txt"] {
            let path = format!("migrations/sqlite/{name}");
            let expected = format!("{path}:1: not a migration's name");
            check_names(&[&path], &[&expected]);
        }
    }

    #[test]
    fn stores_have_the_same_migrations() {
        let (here, there) = ("migrations/sqlite/0001_a.sql", "migrations/postgres/0001_a.sql");
        check_names(&[here, there], &[]);
        check_names(
            &[here, "migrations/postgres/0001_b.sql"],
            &[
                "migrations/postgres/0001_b.sql:1: migrations/sqlite/ has no 0001_b",
                "migrations/sqlite/0001_a.sql:1: migrations/postgres/ has no 0001_a",
            ],
        );
    }

    #[test]
    fn a_migration_says_why() {
        for text in ["", "--\ncreate", "create table a;\n"] {
            let tree = Tree::of(&[("migrations/sqlite/0001_a.sql", text)]);
            assert_findings(&check(&tree), &["migrations/sqlite/0001_a.sql:1: the first line"]);
        }
    }
}
