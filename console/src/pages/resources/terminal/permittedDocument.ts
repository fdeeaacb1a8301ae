// A document for xterm.js, whose renderer writes styles in two ways that the content security policy refuses: style
// elements, and style attributes that are set as text. Scripts may do the same through the CSSOM.
// https://www.w3.org/TR/CSP3/#directive-style-src

interface Creates {
  createElement?: (name: string, options?: ElementCreationOptions) => HTMLElement;
}

const page: Creates = document;
const create = (name: string, options?: ElementCreationOptions) =>
  (Document.prototype as Required<Creates>).createElement.call(document, name, options);

/** CreateElement creates an element whose styles the policy permits. */
function createElement(name: string, options?: ElementCreationOptions): HTMLElement {
  if (name === "style") return styleSheet();
  const element = create(name, options);
  element.setAttribute = (attribute, value) => {
    if (attribute === "style") element.style.cssText = value;
    else Element.prototype.setAttribute.call(element, attribute, value);
  };
  return element;
}

/** StyleSheet returns an element whose text is a style sheet of the document until the element is removed. */
function styleSheet(): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = create("template");
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  document.adoptedStyleSheets.push(sheet);
  return element;
}

/** The document for the option documentOverride. */
export const permittedDocument = new Proxy(document, {
  get(target, member) {
    if (member === "createElement") return createElement;
    const value: unknown = Reflect.get(target, member);
    return typeof value === "function" ? (value.bind(target) as unknown) : value;
  },
});

/** Permitted calls a function that takes the document of the page, as Terminal.open does in parts. */
export function permitted(open: () => void): void {
  page.createElement = createElement;
  try {
    open();
  } finally {
    delete page.createElement;
  }
}
