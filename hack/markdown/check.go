package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// maxWidth is the number of characters that a line of prose may have. Code blocks may be wider, because they show what
// programs print, and so may tables, whose rows cannot be broken.
const maxWidth = 120

// finding is one violation of a rule.
type finding struct {
	path    string
	line    int
	message string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message) }

// page is a parsed file.
type page struct {
	path    string
	source  []byte
	root    ast.Node
	anchors map[string]bool
}

// checker checks pages, and keeps those that it has parsed because others link to them.
type checker struct {
	pages    map[string]*page
	findings []finding
}

// checkFiles returns what is wrong in the named files, in their order.
func checkFiles(paths []string) ([]finding, error) {
	c := checker{pages: map[string]*page{}}
	var all []finding
	for _, path := range paths {
		p, err := c.load(path)
		if err != nil {
			return nil, fmt.Errorf("check Markdown page: %w", err)
		}
		c.findings = nil
		c.checkLines(p)
		c.checkHeadings(p)
		if err := c.checkLinks(p); err != nil {
			return nil, fmt.Errorf("check links of %s: %w", path, err)
		}
		slices.SortStableFunc(c.findings, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
		all = append(all, c.findings...)
	}
	return all, nil
}

func (c *checker) report(p *page, offset int, format string, args ...any) {
	line := 1 + bytes.Count(p.source[:max(offset, 0)], []byte("\n"))
	c.findings = append(c.findings, finding{p.path, line, fmt.Sprintf(format, args...)})
}

// load parses a file, once.
func (c *checker) load(path string) (*page, error) {
	path = filepath.Clean(path)
	if p := c.pages[path]; p != nil {
		return p, nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	p := &page{path: path, source: source, root: parser.Parse(text.NewReader(source)), anchors: map[string]bool{}}
	for _, heading := range p.headings() {
		slug := slugOf(p.textOf(heading))
		anchor := slug
		for i := 1; p.anchors[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", slug, i)
		}
		p.anchors[anchor] = true
	}
	c.pages[path] = p
	return p, nil
}

func (p *page) headings() (found []*ast.Heading) {
	for node := range p.nodes() {
		if heading, ok := node.(*ast.Heading); ok {
			found = append(found, heading)
		}
	}
	return found
}

// nodes iterates over the tree of the page, parents first.
func (p *page) nodes() func(yield func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		_ = ast.Walk(p.root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering && !yield(node) {
				return ast.WalkStop, nil
			}
			return ast.WalkContinue, nil
		})
	}
}

// textOf returns the text of a node without its markup.
func (p *page) textOf(node ast.Node) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(p.source))
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(p.textOf(child))
		}
	}
	return b.String()
}

// slugOf returns the anchor that GitHub gives to a heading, which "make site" uses as well.
func slugOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// offsetOf returns where a node begins in the source; for inline nodes without a position, where their block does.
func offsetOf(node ast.Node) int {
	for ; node != nil; node = node.Parent() {
		if node.Pos() >= 0 {
			return node.Pos()
		}
		if node.Type() == ast.TypeBlock && node.Lines().Len() > 0 {
			return node.Lines().At(0).Start
		}
	}
	return 0
}

// checkLines finds lines that are too long, and white space that nobody sees.
func (c *checker) checkLines(p *page) {
	code := map[int]bool{} // by the offset of the line
	for node := range p.nodes() {
		switch node.Kind() {
		case ast.KindCodeBlock, ast.KindFencedCodeBlock:
			for i := range node.Lines().Len() {
				start := node.Lines().At(i).Start
				code[1+bytes.LastIndexByte(p.source[:start], '\n')] = true
			}
		}
	}
	offset, blank := 0, false
	for line := range bytes.Lines(p.source) {
		start := offset
		offset += len(line)
		content := bytes.TrimSuffix(line, []byte("\n"))
		if len(content) == len(line) {
			c.report(p, start, "the last line does not end with a newline")
		}
		if code[start] {
			blank = false
			continue
		}
		trimmed := bytes.TrimSpace(content)
		if len(trimmed) == 0 && (blank || start == 0 || offset == len(p.source)) {
			c.report(p, start, "one blank line too many")
		}
		blank = len(trimmed) == 0
		if len(bytes.TrimRightFunc(content, unicode.IsSpace)) < len(content) {
			c.report(p, start, "the line ends with white space")
		}
		if bytes.ContainsRune(content, '\t') {
			c.report(p, start, "the line has a tab: indent with spaces")
		}
		if width := utf8.RuneCount(content); width > maxWidth && !bytes.HasPrefix(trimmed, []byte("|")) {
			c.report(p, start, "the line has %d characters: break it before %d", width, maxWidth+1)
		}
	}
}

// checkHeadings finds pages without exactly one title at their top, and levels that are left out.
func (c *checker) checkHeadings(p *page) {
	headings := p.headings()
	if len(headings) == 0 || headings[0].Level != 1 || ast.Node(headings[0]) != p.root.FirstChild() {
		c.report(p, 0, "the page does not begin with its title: # Title")
	}
	level := 0
	for i, heading := range headings {
		switch {
		case i > 0 && heading.Level == 1:
			c.report(p, offsetOf(heading), "a second title: the page has one")
		case i > 0 && heading.Level > level+1:
			c.report(p, offsetOf(heading), "a heading of level %d under one of level %d", heading.Level, level)
		}
		level = heading.Level
	}
}

// checkLinks finds links to files of the repository, and to headings in them, that do not exist.
func (c *checker) checkLinks(p *page) error {
	for node := range p.nodes() {
		var destination string
		switch node := node.(type) {
		case *ast.Link:
			destination = string(node.Destination)
		case *ast.Image:
			destination = string(node.Destination)
		default:
			continue
		}
		target, err := url.Parse(destination)
		if err != nil {
			c.report(p, offsetOf(node), "link %q: %v", destination, err)
			continue
		}
		if target.IsAbs() || target.Host != "" {
			continue
		}
		path := p.path
		if target.Path != "" {
			path = filepath.Join(filepath.Dir(p.path), target.Path)
		}
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			c.report(p, offsetOf(node), "link %q: there is no %s", destination, path)
			continue
		case err != nil:
			return err
		}
		if target.Fragment == "" || filepath.Ext(path) != ".md" {
			continue
		}
		other, err := c.load(path)
		if err != nil {
			return err
		}
		if !other.anchors[target.Fragment] {
			c.report(p, offsetOf(node), "link %q: %s has no heading with the anchor #%s", destination, path,
				target.Fragment)
		}
	}
	return nil
}
