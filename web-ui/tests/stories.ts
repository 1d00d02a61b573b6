// What the model says in these tests, and who asks it.

import { expect } from "@playwright/test";
import type { Stage } from "./stage.ts";

export const AGENT = `
name = "coder"
instructions = "Work."
tools = ["shell", "edit_file"]
`;

/** One call that needs an approval, then the end. */
export const PUSH = `
[[step]]
content = "I push it."
tool_calls = [{ name = "shell", arguments = { command = "echo pushed > pushed.txt" } }]

[[step]]
content = "Done."
`;

/** Says hello and is done. */
export const HELLO = `
[[step]]
content = "Hello."
`;

/** Text that would do harm if it were taken for a part of the page. */
export const HOSTILE = `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script></pre><button>Run \`ls\`</button>`;

/** A session that wants to push; a person is asked before it may. Gives its id. */
export async function pushing(stage: Stage): Promise<string> {
  await stage.start(PUSH);
  return stage.submit(stage.file("agent.toml", AGENT), "Push the fix.");
}

/** The same once it waits for the person. */
export async function waiting(stage: Stage): Promise<string> {
  const id = await pushing(stage);
  await expect.poll(() => stage.cli("show", id)).toContain("waiting_approval");
  return id;
}

/** Lets its open action run, and waits for its end. */
export async function approved(stage: Stage, id: string): Promise<void> {
  await stage.cli("approve", id, "--by", "ada");
  await expect.poll(() => stage.cli("show", id)).toContain("completed");
}

/** A session that was let run, and came to its end. */
export async function completed(stage: Stage): Promise<string> {
  const id = await waiting(stage);
  await approved(stage, id);
  return id;
}
