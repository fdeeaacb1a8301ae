import {
  autocompletion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import * as tokens from "@cloudscape-design/design-tokens";
import { tags } from "@lezer/highlight";
import { useEffect, useEffectEvent, useRef } from "react";
import { aggregates, commands, functions, systemFields, words } from "./insights";
import type { Mistake } from "./useQueryRun";

interface Props {
  value: string;
  onChange: (value: string) => void;
  /** Ctrl+Enter runs the query. */
  onRun: () => void;
  /** The fields that the log groups have. */
  fields: string[];
  mistake: Mistake | undefined;
}

const names = new Set([...functions, ...aggregates].map((name) => name.toLowerCase()));
const keywords = new Set([...Object.keys(commands), ...words].map((word) => word.toLowerCase()));

const language = StreamLanguage.define({
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^"(\\.|[^"\\])*"?/) || stream.match(/^'(\\.|[^'\\])*'?/)) return "string";
    if (stream.match(/^\/(\\.|[^/\\])+\/i?/)) return "regexp";
    if (stream.match(/^`[^`]*`?/) || stream.match(/^@\w+/)) return "propertyName";
    if (stream.match(/^\d+(\.\d+)?(ms|mo|[smhdwqy])?\b/)) return "number";
    const word = stream.match(/^[\w.]+/);
    if (word === null || typeof word === "boolean") {
      stream.next();
      return "operator";
    }
    const text = word[0].toLowerCase();
    if (keywords.has(text)) return "keyword";
    return names.has(text) && stream.peek() === "(" ? "function" : "variableName";
  },
  tokenTable: { function: tags.function(tags.variableName) },
  languageData: { commentTokens: { line: "#" } },
});

// The colors are Cloudscape's, which follow light and dark mode.
const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: tokens.colorTextAccent },
  { tag: tags.function(tags.variableName), color: tokens.colorChartsPaletteCategorical2 },
  { tag: [tags.string, tags.regexp], color: tokens.colorTextStatusSuccess },
  { tag: tags.number, color: tokens.colorChartsPaletteCategorical4 },
  { tag: tags.comment, color: tokens.colorTextBodySecondary, fontStyle: "italic" },
  { tag: tags.propertyName, color: tokens.colorChartsPaletteCategorical5 },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: tokens.colorBackgroundInputDefault, color: tokens.colorTextBodyDefault, fontSize: "14px" },
  ".cm-scroller": { fontFamily: "Monaco, Menlo, Consolas, 'Courier New', monospace", lineHeight: "1.5" },
  ".cm-content": { minHeight: "150px", caretColor: tokens.colorTextBodyDefault },
  ".cm-cursor": { borderLeftColor: tokens.colorTextBodyDefault },
  ".cm-gutters": {
    backgroundColor: tokens.colorBackgroundLayoutMain,
    color: tokens.colorTextBodySecondary,
    border: "none",
  },
  "&.cm-focused": { outline: `2px solid ${tokens.colorBorderItemFocused}` },
  "& .cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: tokens.colorBackgroundItemSelected,
  },
  ".cm-tooltip": {
    backgroundColor: tokens.colorBackgroundInputDefault,
    color: tokens.colorTextBodyDefault,
    border: `1px solid ${tokens.colorBorderControlDefault}`,
  },
});

/** CompletionsAt returns what may stand where the cursor is: commands behind a pipe, and else fields and functions. */
export function completionsAt(context: CompletionContext, fields: string[]): CompletionResult | null {
  const word = context.matchBefore(/[\w.@]*/);
  if (word === null || (word.from === word.to && !context.explicit)) return null;
  const before = context.state.sliceDoc(0, word.from).trimEnd();
  if (before === "" || before.endsWith("|")) {
    return {
      from: word.from,
      options: Object.entries(commands).map(([label, detail]) => ({ label, detail, type: "keyword" })),
    };
  }
  return {
    from: word.from,
    options: [
      ...[...new Set([...systemFields, ...fields])].map((label) => ({
        label,
        apply: /^@?[\w.]+$/.test(label) ? label : `\`${label}\``,
        type: "property",
        boost: 1,
      })),
      ...aggregates.map((label) => ({ label, apply: `${label}(`, type: "function", detail: "aggregate" })),
      ...functions.map((label) => ({ label, apply: `${label}(`, type: "function" })),
      ...words.map((label) => ({ label, type: "keyword" })),
    ],
  };
}

/**
 * QueryEditor edits a query. It is in a shadow root, whose styles a script may set whole: the content security policy
 * lets no style element into the page.
 */
export function QueryEditor({ value, onChange, onRun, fields, mistake }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(undefined);
  const changed = useEffectEvent(onChange);
  const run = useEffectEvent(onRun);
  const complete = useEffectEvent((context: CompletionContext) => completionsAt(context, fields));
  const initial = useRef(value);

  useEffect(() => {
    if (host.current === null) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: initial.current,
        extensions: [
          lineNumbers(),
          history(),
          lintGutter(),
          language,
          syntaxHighlighting(highlight),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Query" }),
          autocompletion({ override: [(context) => complete(context)] }),
          keymap.of([
            {
              key: "Mod-Enter",
              run: () => {
                run();
                return true;
              },
            },
            ...completionKeymap,
            ...historyKeymap,
            ...defaultKeymap,
          ]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) changed(update.state.doc.toString());
          }),
        ],
      }),
    });
    editor.current = view;
    return () => view.destroy();
  }, []);

  useEffect(() => {
    const view = editor.current;
    if (view === undefined || view.state.doc.toString() === value) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const view = editor.current;
    if (view === undefined) return;
    const end = view.state.doc.length;
    const diagnostics =
      mistake === undefined
        ? []
        : [
            {
              from: Math.min(mistake.from, end),
              to: Math.max(Math.min(mistake.to, end), Math.min(mistake.from, end)),
              severity: "error" as const,
              message: mistake.message,
            },
          ];
    view.dispatch(setDiagnostics(view.state, diagnostics));
  }, [mistake]);

  return <div ref={host} className="query-editor" />;
}
