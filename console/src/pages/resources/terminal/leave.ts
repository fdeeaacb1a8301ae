// How the keyboard leaves a terminal, which takes the Tab key for the shell.

/** NewLeaver returns a handler of keys: after Escape, Tab leaves the terminal instead of going to the shell. */
export function newLeaver(): (event: Pick<KeyboardEvent, "type" | "key">) => boolean {
  let escaped = false;
  return ({ type, key }) => {
    if (type !== "keydown" || key === "Shift") return true;
    const leaves = escaped && key === "Tab";
    escaped = key === "Escape";
    return !leaves;
  };
}
