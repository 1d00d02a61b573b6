//! Cuts a POSIX shell text into its simple commands, nested ones included.
//!
//! This is no shell: it runs nothing and knows no values. It must never read *less* into a text than
//! a shell does, so whatever it does not know for sure ends in `None`, and whatever goes beyond plain
//! lists of simple commands is noted in [`Script::is_plain`].

use alloc::string::String;
use alloc::vec::Vec;

mod expansion;
mod here_document;

use here_document::HereDocument;

/// How deep substitutions and subshells may nest before the text counts as unreadable.
const DEPTH_MAX: usize = 32;

/// One word of a simple command.
#[derive(Debug, Clone, Default)]
pub(super) struct Word {
    /// Its text after quotes are removed.
    pub(super) text: String,
    /// A shell expands something in it, so `text` is not what the command gets.
    pub(super) is_expanded: bool,
    /// Some of it is quoted, so it is no keyword.
    pub(super) is_quoted: bool,
    /// It sets a variable when it stands before the command: `NAME=value`.
    pub(super) is_assignment: bool,
}

/// What a text runs.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The words of all simple commands, those inside of substitutions and subshells included, in
    /// no special order. Redirections are left out.
    pub(super) commands: Vec<Vec<Word>>,
    /// Nothing but simple commands, quotes, globs, harmless redirections and the operators between
    /// them.
    pub(super) is_plain: bool,
}

/// Reads `text`; `None` when it cannot be understood for sure.
pub(super) fn read(text: &str) -> Option<Script> {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader::new(&chars, 0);
    reader.list(End::Text)?;
    Some(reader.script)
}

/// What ends a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Parenthesis,
}

struct Reader<'a> {
    text: &'a [char],
    at: usize,
    depth: usize,
    script: Script,
    /// The simple command that is being read.
    words: Vec<Word>,
    has_redirection: bool,
    /// An operator such as `&&` stands before, so a command must follow.
    expects_command: bool,
    here_documents: Vec<HereDocument>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [char], depth: usize) -> Self {
        Self {
            text,
            at: 0,
            depth,
            script: Script { commands: Vec::new(), is_plain: true },
            words: Vec::new(),
            has_redirection: false,
            expects_command: false,
            here_documents: Vec::new(),
        }
    }

    /// The next character as it stands there.
    fn raw(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn take_raw(&mut self) -> Option<char> {
        let next = self.raw();
        self.at += 1;
        next
    }

    /// The next character after line continuations, which vanish before a shell looks at tokens.
    fn peek(&mut self) -> Option<char> {
        while self.raw() == Some('\\') && self.text.get(self.at + 1) == Some(&'\n') {
            self.at += 2;
        }
        self.raw()
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += 1;
        }
        is_next
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    fn is_beyond_plain(&mut self) {
        self.script.is_plain = false;
    }

    /// Reads commands up to `end`, which is consumed.
    fn list(&mut self, end: End) -> Option<()> {
        loop {
            let Some(next) = self.peek() else {
                self.end_command()?;
                let is_whole = end == End::Text && self.here_documents.is_empty();
                if self.expects_command {
                    self.is_beyond_plain();
                }
                return is_whole.then_some(());
            };
            match next {
                ' ' | '\t' => self.at += 1,
                '#' => {
                    // A backslash before the end of the line belongs to the comment.
                    while self.raw().is_some_and(|it| it != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.at += 1;
                    self.end_command()?;
                    self.here_document_bodies()?;
                }
                ';' | '&' | '|' => self.operator(next)?,
                '(' => {
                    self.at += 1;
                    self.is_beyond_plain();
                    self.end_command()?;
                    self.nested_list()?;
                }
                ')' => {
                    self.at += 1;
                    self.end_command()?;
                    if end == End::Parenthesis {
                        return self.here_documents.is_empty().then_some(());
                    }
                    // The pattern of a `case`.
                    self.is_beyond_plain();
                }
                '<' | '>' => self.redirection(next)?,
                _ => self.word_of_command()?,
            }
        }
    }

    /// `;`, `&`, `|` and what they are doubled to.
    fn operator(&mut self, first: char) -> Option<()> {
        self.at += 1;
        if self.words.is_empty() && !self.has_redirection {
            self.is_beyond_plain();
        }
        let is_double = self.take_if(first);
        match (first, is_double) {
            // The end of a `case` branch.
            (';', true) => self.is_beyond_plain(),
            ('|', false) => {
                self.take_if('&');
            }
            _ => {}
        }
        self.end_command()?;
        self.expects_command = first == '|' || (first == '&' && is_double);
        Some(())
    }

    /// Puts the simple command that was read to the others.
    fn end_command(&mut self) -> Option<()> {
        // The patterns of a `case` have single parentheses, so it is not known for sure where a
        // substitution around it ends.
        if self.depth > 0 && self.words.iter().any(|it| !it.is_quoted && it.text == "case") {
            return None;
        }
        if !self.words.is_empty() {
            self.script.commands.push(core::mem::take(&mut self.words));
            self.expects_command = false;
        } else if self.has_redirection {
            self.expects_command = false;
        }
        self.has_redirection = false;
        Some(())
    }

    /// Reads commands up to the closing parenthesis, apart from the command around them.
    fn nested_list(&mut self) -> Option<()> {
        if self.depth >= DEPTH_MAX || !self.here_documents.is_empty() {
            return None;
        }
        let words = core::mem::take(&mut self.words);
        let (has_redirection, expects) = (self.has_redirection, self.expects_command);
        (self.has_redirection, self.expects_command) = (false, false);
        self.depth += 1;
        self.list(End::Parenthesis)?;
        self.depth -= 1;
        self.words = words;
        (self.has_redirection, self.expects_command) = (has_redirection, expects);
        Some(())
    }

    fn redirection(&mut self, first: char) -> Option<()> {
        self.at += 1;
        if self.peek() == Some('(') {
            self.process_substitution()?;
            self.words.push(Word { is_expanded: true, ..Word::default() });
            return Some(());
        }
        self.has_redirection = true;
        let second = match (first, self.peek()) {
            ('<', Some(it @ ('<' | '>' | '&'))) | ('>', Some(it @ ('>' | '|' | '&'))) => {
                self.at += 1;
                Some(it)
            }
            _ => None,
        };
        if (first, second) == ('<', Some('<')) {
            if !self.take_if('<') {
                return self.here_document();
            }
            // A here-string is no POSIX.
            self.is_beyond_plain();
        }
        self.skip_blanks();
        if matches!(self.peek(), Some('<' | '>')) {
            self.at += 1;
            return self.process_substitution();
        }
        let target = self.word()?;
        let is_harmless = !target.is_expanded
            && match (first, second) {
                (_, Some('&')) => is_descriptor(&target.text) || target.text == "/dev/null",
                // Some shells open network connections under these names.
                ('<', None) => !target.text.contains("dev/tcp") && !target.text.contains("dev/udp"),
                ('<', _) => false,
                _ => target.text == "/dev/null",
            };
        self.script.is_plain &= is_harmless;
        Some(())
    }

    /// `<(..)` or `>(..)` after its first character, with what is glued to it.
    fn process_substitution(&mut self) -> Option<()> {
        if !self.take_if('(') {
            return None;
        }
        self.is_beyond_plain();
        self.nested_list()?;
        if self.peek().is_some_and(|it| !is_word_end(it)) {
            self.word()?;
        }
        Some(())
    }

    /// A word that belongs to the command, unless it is the number of a redirection.
    fn word_of_command(&mut self) -> Option<()> {
        let word = self.word()?;
        let is_before_redirection = matches!(self.raw(), Some('<' | '>')) && !word.is_quoted;
        if is_before_redirection && word.text.chars().all(|it| it.is_ascii_digit()) {
            return Some(());
        }
        if is_before_redirection && word.text.starts_with('{') && word.text.ends_with('}') {
            // Some shells put the number into that variable.
            self.is_beyond_plain();
            return Some(());
        }
        self.words.push(word);
        Some(())
    }

    /// Reads one word. `None` at its end when nothing can be a word there.
    fn word(&mut self) -> Option<Word> {
        let start = self.at;
        let mut word = Word::default();
        let mut has_brace = false;
        let mut is_empty = true;
        while let Some(next) = self.peek() {
            match next {
                end if is_word_end(end) => break,
                '\\' => {
                    self.at += 1;
                    word.is_quoted = true;
                    word.text.push(self.take_raw()?);
                }
                '\'' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.single_quoted(&mut word)?;
                }
                '"' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.double_quoted(&mut word)?;
                }
                '`' => self.backquoted(&mut word, false)?,
                '$' => self.dollar(&mut word, false)?,
                plain => {
                    self.at += 1;
                    match plain {
                        '*' | '?' => word.is_expanded = true,
                        '[' if !matches!(word.text.as_str(), "" | "[") => word.is_expanded = true,
                        '{' => has_brace = true,
                        '=' if !word.is_quoted && !word.is_assignment => {
                            word.is_assignment = is_assignable(&word.text);
                        }
                        _ => {}
                    }
                    word.text.push(plain);
                }
            }
            is_empty = false;
        }
        if is_empty || (!self.here_documents.is_empty() && self.spans_lines(start)) {
            return None;
        }
        let is_test = matches!(word.text.as_str(), "[" | "[[");
        word.is_expanded |= word.text.starts_with('[') && !is_test && !word.is_quoted;
        word.is_expanded |= has_brace && (word.text.contains(',') || word.text.contains(".."));
        Some(word)
    }

    /// Where a here-document begins is then not the same in all shells.
    fn spans_lines(&self, start: usize) -> bool {
        self.text.get(start..self.at).is_some_and(|it| it.contains(&'\n'))
    }

    fn single_quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.take_raw()? {
                '\'' => return Some(()),
                other => word.text.push(other),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.peek()? {
                '"' => {
                    self.at += 1;
                    return Some(());
                }
                '\\' => {
                    self.at += 1;
                    let escaped = self.take_raw()?;
                    if !matches!(escaped, '$' | '`' | '"' | '\\') {
                        word.text.push('\\');
                    }
                    word.text.push(escaped);
                }
                '`' => self.backquoted(word, true)?,
                '$' => self.dollar(word, true)?,
                other => {
                    self.at += 1;
                    word.text.push(other);
                }
            }
        }
    }
}

/// What ends a word when it is not quoted.
fn is_word_end(it: char) -> bool {
    matches!(it, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

/// Whether `=` after it makes an assignment: a name, perhaps with an index, perhaps with a `+`.
fn is_assignable(text: &str) -> bool {
    let text = text.strip_suffix('+').unwrap_or(text);
    let name = match text.split_once('[') {
        Some((name, index)) if index.ends_with(']') => name,
        Some(_) => return false,
        None => text,
    };
    name.chars().next().is_some_and(|it| it == '_' || it.is_ascii_alphabetic())
        && name.chars().all(|it| it == '_' || it.is_ascii_alphanumeric())
}

/// The target of `>&` and `<&` that names an open descriptor or closes one.
fn is_descriptor(text: &str) -> bool {
    text == "-" || (!text.is_empty() && text.chars().all(|it| it.is_ascii_digit()))
}
