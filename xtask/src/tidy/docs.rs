//! Pages that must exist, links that must lead somewhere, and the code map.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Finding, Tree};

/// What a visitor looks for first.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE"];

/// Longer than this, and it is no longer read before the code.
const ARCHITECTURE_LINES_MAX: usize = 250;

/// Checks the pages and every relative link in Markdown.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in PAGES {
        if tree.file(page).is_none_or(|it| it.text.trim().is_empty()) {
            findings.push(Finding::new(page, 1, "missing or empty: write it"));
        }
    }
    if let Some(page) = tree.file("ARCHITECTURE.md") {
        let lines = page.text.lines().count();
        if lines > ARCHITECTURE_LINES_MAX {
            let message = format!(
                "{lines} lines, more than {ARCHITECTURE_LINES_MAX}: move details to docs/ and keep \
                 the bird's eye view"
            );
            findings.push(Finding::new(&page.path, 1, message));
        }
    }
    findings.extend(check_links(tree));
    findings
}

/// Every crate is in the code map of `ARCHITECTURE.md`, by its name or its folder.
pub(super) fn check_code_map(tree: &Tree, members: &[(String, String)]) -> Vec<Finding> {
    let Some(page) = tree.file("ARCHITECTURE.md") else {
        return Vec::new();
    };
    let Some((heading_line, map)) = code_map(page) else {
        let message = "no section with `Code map` in its heading: add one with a line per crate";
        return vec![Finding::new(&page.path, 1, message)];
    };
    let names: BTreeSet<&str> = map.iter().flat_map(|it| it.split(is_not_name)).collect();
    let is_absent = |(name, folder): &&(String, String)| {
        let is_named = |it: &&str| *it == name || it.trim_end_matches('/') == folder;
        !names.iter().any(is_named)
    };
    let finding = |(name, _): &(String, String)| {
        let message = format!("{name} is not in the code map: add a line that says what it is for");
        Finding::new(&page.path, heading_line, message)
    };
    members.iter().filter(is_absent).map(finding).collect()
}

fn is_not_name(it: char) -> bool {
    !it.is_alphanumeric() && !"-_/".contains(it)
}

/// The line of the heading, and the lines up to the next heading of the same or a higher level.
fn code_map(page: &File) -> Option<(usize, Vec<&str>)> {
    let is_map = |it: &str| level(it) > 0 && it.to_lowercase().contains("code map");
    let (heading_line, heading) = page.lines().find(|(_, it)| is_map(it))?;
    let section = page.text.lines().skip(heading_line);
    let ends = |it: &&str| level(it) == 0 || level(it) > level(heading);
    Some((heading_line, section.take_while(ends).collect()))
}

/// How many `#` a heading has; 0 for any other line.
fn level(line: &str) -> usize {
    let hashes = line.chars().take_while(|it| *it == '#').count();
    if line.chars().nth(hashes) == Some(' ') { hashes } else { 0 }
}

fn check_links(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeSet<&str> = BTreeSet::new();
    for file in &tree.files {
        places.insert(&file.path);
        let ends = file.path.match_indices('/').map(|(at, _)| at);
        places.extend(ends.filter_map(|at| file.path.get(..at)));
    }
    let pages: Vec<&File> = tree.files.iter().filter(|it| it.has_extension(&["md"])).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|it| (it.path.as_str(), anchors(it))).collect();
    let mut findings = Vec::new();
    for page in pages {
        for (line, link) in links(page) {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = resolve(&page.path, target);
            let message =
                if !path.as_ref().is_some_and(|it| it.is_empty() || places.contains(it.as_str())) {
                    format!("the link to `{link}` leads nowhere: correct the path or add the file")
                } else if !anchor.is_empty()
                    && let Some(known) = path.and_then(|it| anchors.get(it.as_str()))
                    && !known.contains(anchor)
                {
                    format!("the link to `{link}` names a heading that is not there: correct it")
                } else {
                    continue;
                };
            findings.push(Finding::new(&page.path, line, message));
        }
    }
    findings
}

/// The targets of inline links, images and link definitions that point into the checkout.
fn links(page: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, text) in prose_lines(page) {
        // Even pieces stand outside of inline code.
        let targets = text.split('`').step_by(2).flat_map(|prose| {
            let inline = prose.split("](").skip(1).filter_map(|it| it.split([')', ' ']).next());
            let defined = prose.strip_prefix('[').and_then(|it| it.split_once("]: "));
            inline.chain(defined.and_then(|(_, it)| it.split_whitespace().next()))
        });
        let is_inside = |it: &&str| !it.is_empty() && !it.contains(':') && !it.starts_with("//");
        found.extend(targets.filter(is_inside).map(|it| (line, it.trim_matches(['<', '>']))));
    }
    found
}

/// The lines outside of fenced code.
fn prose_lines(page: &File) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for (line, text) in page.lines() {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push((line, text));
        }
    }
    lines
}

/// The path from the root that a link on a page means. `None` when it leaves the checkout, and
/// the root itself is empty.
fn resolve(page: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(page.to_owned());
    }
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that the headings of a page make, in the way that Markdown viewers agree on:
/// small letters, blanks as dashes, other signs dropped, a number when one repeats.
fn anchors(page: &File) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, text) in prose_lines(page).into_iter().filter(|(_, it)| level(it) > 0) {
        let title = text.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let slug: String = kept.map(|it| if it == ' ' { '-' } else { it }).collect();
        let mut anchor = slug.clone();
        let mut repeat = 0_usize;
        while !anchors.insert(anchor) {
            repeat += 1;
            anchor = format!("{slug}-{repeat}");
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::super::assert_findings;
    use super::*;

    #[track_caller]
    fn check_page(text: &str, expected: &[&str]) {
        let tree = Tree::of(&[
            ("docs/page.md", text),
            ("docs/other.md", "# Two words, `code`\n\n## Again\n\n## Again\n"),
            ("docs/pictures/a.png", ""),
            ("README.md", "# Top\n"),
        ]);
        assert_findings(&check_links(&tree), expected);
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        check_page(
            "[a](other.md) [b](../README.md#top) ![c](pictures/a.png) [d](pictures/) [e](/docs)\n\
             [f](https://example.org/x.md) [g](mailto:a@b.c) [h](#here) [i](other.md \"title\")\n\
             [j](other.md#two-words-code) [k](other.md#again-1) [l](..)\n# Here\n[m]: other.md\n",
            &[],
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        check_page("[a](gone.md)\n", &["docs/page.md:1: the link to `gone.md` leads nowhere"]);
        check_page("\n![a](a.png)\n", &["docs/page.md:2: the link to `a.png` leads nowhere"]);
        check_page("[a](../../x.md)\n", &["docs/page.md:1: the link to `../../x.md` leads"]);
        check_page("[a]: gone.md\n", &["docs/page.md:1: the link to `gone.md` leads nowhere"]);
    }

    #[test]
    fn an_anchor_must_be_a_heading() {
        check_page("[a](other.md#gone)\n", &["docs/page.md:1: the link to `other.md#gone` names"]);
        check_page("[a](#gone)\n", &["docs/page.md:1: the link to `#gone` names a heading"]);
    }

    #[test]
    fn code_holds_no_links() {
        check_page("`[a](gone.md)`\n```\n[a](gone.md)\n# Not a heading\n```\n", &[]);
    }

    #[test]
    fn the_first_pages_exist() {
        let pages = [("README.md", "a"), ("ARCHITECTURE.md", "a"), ("LICENSE", "a")];
        assert_findings(&check(&Tree::of(&pages)), &["CHANGELOG.md:1: missing"]);
    }

    #[test]
    fn the_architecture_page_stays_short() {
        let text = "a\n".repeat(251);
        let tree = Tree::of(&[
            ("README.md", "a"),
            ("CHANGELOG.md", "a"),
            ("LICENSE", "a"),
            ("ARCHITECTURE.md", &text),
        ]);
        assert_findings(&check(&tree), &["ARCHITECTURE.md:1: 251 lines"]);
    }

    #[track_caller]
    fn check_map(text: &str, expected: &[&str]) {
        let members = [
            ("stepwell-core".to_owned(), "crates/stepwell-core".to_owned()),
            ("stepwell-tests".to_owned(), "tests".to_owned()),
        ];
        let tree = Tree::of(&[("ARCHITECTURE.md", text)]);
        assert_findings(&check_code_map(&tree, &members), expected);
    }

    #[test]
    fn every_crate_is_in_the_code_map() {
        check_map("# A\n## Code map\n| `stepwell-core` | pure |\n### Tests\n`tests/`\n", &[]);
        let absent = "# A\n## Code map\n`stepwell-core-x`, `tests/`\n## Next\nstepwell-core\n";
        check_map(absent, &["ARCHITECTURE.md:2: stepwell-core is not in the code map"]);
    }

    #[test]
    fn a_page_without_a_code_map_is_found() {
        check_map("# A\n", &["ARCHITECTURE.md:1: no section"]);
        assert_findings(&check_code_map(&Tree::of(&[]), &[]), &[]);
    }
}
