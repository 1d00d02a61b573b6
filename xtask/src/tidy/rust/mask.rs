//! Takes comments and the insides of strings out of Rust text.

/// One text twice, each with the same line breaks as the original.
#[derive(Debug, Default)]
pub(super) struct Masked {
    /// Code; comments and what stands between quotes are blanks.
    pub(super) code: String,
    /// Comments with their slashes; everything else is blanks.
    pub(super) comments: String,
}

/// Separates code from comments.
pub(super) fn mask(text: &str) -> Masked {
    let mut masker = Masker { chars: text.chars().collect(), at: 0, out: Masked::default() };
    while masker.at < masker.chars.len() {
        masker.next();
    }
    masker.out
}

struct Masker {
    chars: Vec<char>,
    at: usize,
    out: Masked,
}

#[derive(Clone, Copy)]
enum To {
    Code,
    Comments,
    Nowhere,
}

impl Masker {
    fn next(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('\''), _) => self.quote(),
            (Some('r'), Some('"' | '#')) if !self.is_inside_word() => self.raw_string(),
            (Some('b' | 'c'), Some('r')) if !self.is_inside_word() => {
                self.take(To::Code);
                self.raw_string();
            }
            _ => self.take(To::Code),
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// True when the character before this one continues a word, as the `r` of `for` does.
    fn is_inside_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|it| self.chars.get(it));
        before.is_some_and(|it| it.is_alphanumeric() || *it == '_')
    }

    /// Moves one character to its side, and a blank to the other.
    fn take(&mut self, to: To) {
        let Some(c) = self.peek(0) else { return };
        self.at += 1;
        let blank = if c == '\n' { '\n' } else { ' ' };
        self.out.code.push(if matches!(to, To::Code) { c } else { blank });
        self.out.comments.push(if matches!(to, To::Comments) { c } else { blank });
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|it| it != '\n') {
            self.take(To::Comments);
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                _ => {
                    self.take(To::Comments);
                    continue;
                }
            }
            self.take(To::Comments);
            self.take(To::Comments);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(To::Code);
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.take(To::Code),
                '\\' => {
                    self.take(To::Nowhere);
                    self.take(To::Nowhere);
                }
                _ => self.take(To::Nowhere),
            }
        }
    }

    /// At an `r`: a raw string, or a word such as `r#type` or `br`.
    fn raw_string(&mut self) {
        let after = self.chars.iter().skip(self.at + 1);
        let hashes = after.take_while(|it| **it == '#').count();
        if self.peek(hashes + 1) != Some('"') {
            return self.take(To::Code);
        }
        for _ in 0..hashes + 2 {
            self.take(To::Code);
        }
        while self.at < self.chars.len() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                for _ in 0..=hashes {
                    self.take(To::Code);
                }
                return;
            }
            self.take(To::Nowhere);
        }
    }

    /// At a `'`: a character, or a lifetime.
    fn quote(&mut self) {
        let is_escape = self.peek(1) == Some('\\');
        if !is_escape && self.peek(2) != Some('\'') {
            return self.take(To::Code);
        }
        self.take(To::Code);
        self.take(To::Nowhere);
        if is_escape {
            self.take(To::Nowhere);
        }
        while self.peek(0).is_some_and(|it| it != '\'' && it != '\n') {
            self.take(To::Nowhere);
        }
        self.take(To::Code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str, comments: &str) {
        let masked = mask(text);
        let squeeze = |it: &str| it.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&masked.code), code);
        assert_eq!(squeeze(&masked.comments), comments);
        assert_eq!(masked.code.lines().count(), text.lines().count());
        assert_eq!(masked.comments.lines().count(), text.lines().count());
    }

    #[test]
    fn comments_leave_the_code() {
        check("a // b\nc /* d /* e */ f */ g", "a c g", "// b /* d /* e */ f */");
    }

    #[test]
    fn strings_are_emptied() {
        check(r#"a("// x \" y", b)"#, r#"a(" ", b)"#, "");
        check("a(b\"x\ny\")", "a(b\" \")", "");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        check("a(r#\"x \" y\"#, b)", "a(r#\" \"#, b)", "");
        check("a(br\"\\\", b)", "a(br\" \", b)", "");
        check("r#type(for r in x)", "r#type(for r in x)", "");
    }

    #[test]
    fn characters_are_no_lifetimes() {
        check(
            r"a('{', b'\'', '\u{1f}', 'x: &'static str)",
            "a(' ', b' ', ' ', 'x: &'static str)",
            "",
        );
    }

    #[test]
    fn text_that_ends_too_early_is_read_to_its_end() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "'"] {
            mask(text);
        }
    }
}
