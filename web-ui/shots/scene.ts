// A store with sessions of all kinds, for pictures.

import type { Stage } from "../tests/stage.ts";

const AGENT = `\
name = "fixer"
instructions = """
You mend failing tests. Look before you change something, and check what you did.
"""
tools = ["list_files", "read_file", "write_file", "edit_file", "shell", "ask_user"]

[limits]
steps = 12

[approval]
expires_after = "1h"

[[approval.rules]]
tool = "shell"
commands = ["git push", "sudo"]
verdict = "ask"

[[approval.rules]]
tool = "shell"
commands = ["ls", "cat", "pytest", "git status"]
verdict = "allow"

[[approval.rules]]
tool = "write_file"
verdict = "allow"
`;

const DATES = `def parse(text):
    day, month, year = text.split("/")
    return date(int(year), int(day), int(month))


def format(value):
    return value.strftime("%d/%m/%Y")
`;

const SCRIPT = `
[[step]]
content = "I take the file that the test is about."
tool_calls = [{ name = "write_file", arguments = { path = "dates.py", content = ${JSON.stringify(DATES)} } }]

[[step]]
content = "I look at it, and at what is beside it."
tool_calls = [
  { name = "read_file", arguments = { path = "dates.py" } },
  { name = "list_files", arguments = {} },
]

[[step]]
content = "Month and day are swapped. I put them right."

[[step.tool_calls]]
name = "edit_file"
arguments = { path = "dates.py", old_text = ${JSON.stringify(DATES)}, new_text = ${JSON.stringify(
  DATES.replace("int(day), int(month)", "int(month), int(day)"),
)} }

[[step]]
content = "The test passes now."

[[step]]
when = "Push"
content = "The branch is ready, I push it."
tool_calls = [{ name = "shell", arguments = { command = "git push origin fix" } }]

[[step]]
when = "Push"
content = "Then I leave it where it is."

[[step]]
when = "Release"
content = "I need to know more."
tool_calls = [{ name = "ask_user", arguments = { question = "Which version shall it be?" } }]

[[step]]
when = "Count"
repeat = "forever"
tool_calls = [{ name = "list_files", arguments = {} }]

[[step]]
when = "Greet"
content = "Hello. Everything is in its place."

[[step]]
when = "Break"
fault = { kind = "status", status = 400, message = "this model takes no tools", times = "always" }

[[step]]
when = "Wait"
fault = { kind = "hang", times = "always" }
`;

export interface Scene {
  /** The session whose edit waits for approval. */
  readonly edited: string;
  readonly approval: string;
}

/** Starts everything and lets it come to rest. */
export async function fill(stage: Stage): Promise<Scene> {
  await stage.start(SCRIPT);
  const agent = stage.file("fixer.toml", AGENT);
  await stage.cli("agents", "put", agent);
  await stage.cli(
    "agents",
    "put",
    stage.file("two.toml", AGENT.replace("steps = 12", "steps = 20")),
  );
  await stage.cli(
    "agents",
    "put",
    stage.file("other.toml", AGENT.replace('"fixer"', '"reviewer"')),
  );
  const submit = (task: string, ...more: string[]) => stage.submit("fixer@1", task, ...more);
  const over = "--wait=end";
  for (const name of ["the new colleague", "the night shift", "everybody"]) {
    await submit(`Greet ${name}`, over, "--label", "team=web");
  }
  await submit("Count the files until there is nothing left to count", over).catch(() => "");
  await submit("Break something on purpose", over).catch(() => "");
  const cancelled = await submit("Push the old branch");
  await stage.cli("cancel", cancelled, "--by", "grace", "--reason", "Not needed any more");
  const denied = await submit("Push to main at once");
  await until(stage, denied, "waiting_approval");
  await stage.cli("deny", denied, "--by", "grace", "--reason", "Never to main.");
  await submit("Wait for a model that says nothing");
  await submit("Release the next version", "--label", "ticket=212");
  const push = await submit("Push the fix of the date test", "--label", "team=web");
  const edited = await submit(
    "Fix the failing date test",
    "--label",
    "team=web",
    "--label",
    "ticket=187",
  );
  await until(stage, push, "waiting_approval");
  await until(stage, edited, "waiting_approval");
  const asked = (await stage.cli("approvals", "--json")).trim().split("\n");
  const approvals = asked.map(
    (it) => JSON.parse(it) as { approval_id: string; session_id: string },
  );
  const approval = approvals.find((it) => it.session_id === edited)?.approval_id ?? "";
  return { edited, approval };
}

async function until(stage: Stage, id: string, words: string): Promise<void> {
  while (!(await stage.cli("show", id)).includes(words)) {
    // Asking takes long enough.
  }
}
