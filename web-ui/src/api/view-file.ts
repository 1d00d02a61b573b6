// Opens an exported file on the server, which keeps it in memory and only shows it.

interface Opened {
  readonly address: string;
}

interface Refused {
  readonly error: { readonly message: string };
}

/** Sends the file; gives the address of its session. Fails in words for the person. */
export async function viewFile(file: File, signal: AbortSignal): Promise<string> {
  let answer: Response;
  try {
    answer = await fetch(`/view?name=${encodeURIComponent(file.name)}`, {
      method: "POST",
      body: file,
      signal,
    });
  } catch {
    throw new Error("The server did not take the file. Is it running?");
  }
  const body: unknown = await answer.json();
  if (answer.ok) return (body as Opened).address;
  throw new Error((body as Refused).error.message);
}
