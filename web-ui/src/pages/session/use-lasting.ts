import { useEffect, useState } from "react";

/** True once it was true for so long. */
export function useLasting(is: boolean, forMs: number): boolean {
  const [hasLasted, setLasted] = useState(false);
  useEffect(() => {
    if (!is) return setLasted(false);
    const timer = window.setTimeout(() => setLasted(true), forMs);
    return () => window.clearTimeout(timer);
  }, [is, forMs]);
  return is && hasLasted;
}
