// Lines for a shell.

/** A word for a shell: as it is when that is safe, quoted otherwise. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Where the command line looks for a server when nothing else is said. */
const USUAL_SERVERS = ["http://127.0.0.1:7171", "http://localhost:7171"];

/** The line for the server at `origin`, so that it does the same wherever the page came from. */
export function atServer(line: string, origin: string): string {
  return USUAL_SERVERS.includes(origin) ? line : `${line} --server ${shellWord(origin)}`;
}

/** The smallest agent, written so that a command can read it from a pipe. */
const HELLO_AGENT = String.raw`printf 'name = "hello"\ninstructions = "Answer in one sentence."\n'`;

/** Lines that work on a server that knows nothing yet, from any folder. */
export const FIRST_TASK = `${HELLO_AGENT} | stepwell submit --agent - "Say hello"`;
export const FIRST_AGENT = `${HELLO_AGENT} | stepwell agents put -`;
