//! Words and signs of masked code, and where items end.

use super::Function;

/// A word (name, keyword, number) or a single sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Token {
    /// The word, or the one sign.
    pub(in super::super) text: String,
    /// Counted from 1.
    pub(in super::super) line: usize,
}

impl Token {
    /// True for a name or keyword.
    pub(in super::super) fn is_word(&self) -> bool {
        self.text.starts_with(|it: char| it.is_alphabetic() || it == '_')
    }
}

/// Splits masked code into tokens.
pub(super) fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut word = String::new();
        for c in text.chars().chain(Some(' ')) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                tokens.push(Token { text: std::mem::take(&mut word), line });
            }
            if !c.is_whitespace() {
                tokens.push(Token { text: c.to_string(), line });
            }
        }
    }
    tokens
}

/// The index of the token that ends the item which begins at `from`: its `;`, or the brace that
/// closes its body. The last token when the text ends before.
pub(in super::super) fn item_end(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return index;
                }
            }
            ";" if depth == 0 => return index,
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// All functions with a body.
pub(super) fn functions(tokens: &[Token]) -> Vec<Function> {
    let mut functions = Vec::new();
    for (index, pair) in tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        if keyword.text != "fn" || !name.is_word() {
            continue;
        }
        if let Some(end) = tokens.get(item_end(tokens, index))
            && end.text == "}"
        {
            functions.push(Function {
                name: name.text.clone(),
                first_line: keyword.line,
                last_line: end.line,
            });
        }
    }
    functions
}

/// First and last line of every item under `#[cfg(test)]` or `#[test]`, its attributes included.
/// The last line is `None` when the attribute is an inner one and so covers the whole file.
pub(super) fn test_items(tokens: &[Token]) -> Vec<(usize, Option<usize>)> {
    let mut items = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some(attribute) = Attribute::at(tokens, index) else { continue };
        if !attribute.is_test() {
            continue;
        }
        let last = tokens.get(item_end(tokens, past_attributes(tokens, index)));
        items.push((token.line, last.filter(|_| !attribute.is_inner).map(|it| it.line)));
    }
    items
}

/// Names of the modules declared as `#[cfg(test)] mod name;`.
pub(super) fn test_modules(tokens: &[Token]) -> Vec<String> {
    let mut names = Vec::new();
    for index in 0..tokens.len() {
        if !Attribute::at(tokens, index).is_some_and(|it| it.is_test()) {
            continue;
        }
        let item = tokens.iter().skip(past_attributes(tokens, index)).map(|it| it.text.as_str());
        let mut item = item.skip_while(|it| matches!(*it, "pub" | "(" | ")" | "crate" | "super"));
        if item.next() == Some("mod")
            && let Some(name) = item.next()
            && item.next() == Some(";")
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// The index of the first token after this attribute and those that follow it.
fn past_attributes(tokens: &[Token], mut index: usize) -> usize {
    while let Some(attribute) = Attribute::at(tokens, index) {
        index = attribute.end + 1;
    }
    index
}

struct Attribute<'a> {
    /// What stands between the brackets.
    body: &'a [Token],
    /// The index of the closing bracket.
    end: usize,
    is_inner: bool,
}

impl<'a> Attribute<'a> {
    /// The attribute whose `#` is at this index.
    fn at(tokens: &'a [Token], index: usize) -> Option<Self> {
        let text = |at: usize| tokens.get(at).map(|it| it.text.as_str());
        if text(index) != Some("#") {
            return None;
        }
        let is_inner = text(index + 1) == Some("!");
        let open = index + 1 + usize::from(is_inner);
        if text(open) != Some("[") {
            return None;
        }
        let mut depth = 0_usize;
        for (end, token) in tokens.iter().enumerate().skip(open) {
            match token.text.as_str() {
                "[" => depth += 1,
                "]" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(Self { body: tokens.get(open + 1..end)?, end, is_inner });
            }
        }
        None
    }

    /// `#[test]`, `#[tokio::test(..)]`, `#[cfg(test)]`, `#[cfg(all(test, ..))]`; no `not(test)`.
    fn is_test(&self) -> bool {
        let has = |word: &str| self.body.iter().any(|it| it.text == word);
        if self.body.first().is_some_and(|it| it.text == "cfg") {
            return has("test") && !has("not") && !has("any");
        }
        let path = self.body.iter().take_while(|it| it.is_word() || it.text == ":");
        path.last().is_some_and(|it| it.text == "test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_at_its_own_brace() {
        let code = "fn a(x: [u8; 2]) -> [u8; 2] {\n if x { y }\n}\ntrait T {\n fn b();\n}\n\
                    fn c() where X: Fn() {\n}\nlet d: fn(u8) = e;";
        let found: Vec<_> = functions(&tokens(code))
            .into_iter()
            .map(|it| (it.name, it.first_line, it.last_line))
            .collect();
        assert_eq!(found, [("a".to_owned(), 1, 3), ("c".to_owned(), 7, 8)]);
    }

    #[track_caller]
    fn check_test_items(code: &str, expected: &[(usize, Option<usize>)]) {
        assert_eq!(test_items(&tokens(code)), expected, "{code}");
    }

    #[test]
    fn test_items_are_found_by_their_attribute() {
        check_test_items("#[cfg(test)]\n#[path = x]\nmod a {\n}\nfn b() {}", &[(1, Some(4))]);
        check_test_items("#[tokio::test(flavor = x)]\nasync fn a() {\n}", &[(1, Some(3))]);
        check_test_items("#[cfg(all(test, unix))]\nuse a;", &[(1, Some(2))]);
        check_test_items("#![cfg(test)]\nfn a() {}", &[(1, None)]);
    }

    #[test]
    fn code_for_other_builds_is_no_test() {
        check_test_items("#[cfg(not(test))]\nfn a() {}", &[]);
        check_test_items("#[cfg(any(test, feature = x))]\nfn a() {}", &[]);
        check_test_items("#[derive(Debug)]\nstruct Test;", &[]);
    }

    #[test]
    fn only_a_module_without_body_names_a_file() {
        let code = "#[cfg(test)] mod a; #[cfg(test)] pub(crate) mod b; #[cfg(test)] mod c {}";
        assert_eq!(test_modules(&tokens(code)), ["a", "b"]);
    }
}
