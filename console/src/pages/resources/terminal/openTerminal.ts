// xterm.js writes styles in two ways that the content security policy refuses: style elements, and style attributes
// that are set as text. Scripts may do the same through the CSSOM. https://www.w3.org/TR/CSP3/#directive-style-src
import type { Terminal } from "@xterm/xterm";

interface Creates {
  createElement?: (name: string, options?: ElementCreationOptions) => HTMLElement;
}

/** What of a terminal writes style attributes: it has no option for that. */
interface Internals {
  _core: {
    _renderService: {
      _renderer: { value: { _rowFactory: { _addStyle: (element: HTMLElement, style: string) => void } } };
    };
  };
}

/** OpenTerminal opens a terminal in an element, with styles that the policy permits. */
export function openTerminal(terminal: Terminal, element: HTMLElement): void {
  const page: Creates = document;
  const create = (Document.prototype as Required<Creates>).createElement.bind(document);
  // All of its style elements are made while it opens.
  page.createElement = (name, options) => (name === "style" ? styleSheet(create("template")) : create(name, options));
  try {
    terminal.open(element);
  } finally {
    delete page.createElement;
  }
  const { _core } = terminal as unknown as Internals;
  _core._renderService._renderer.value._rowFactory._addStyle = (cell, style) => {
    cell.style.cssText += `${style};`;
  };
}

/** StyleSheet makes the text of an element a style sheet of the document, until the element is removed. */
function styleSheet(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  document.adoptedStyleSheets.push(sheet);
  return element;
}
