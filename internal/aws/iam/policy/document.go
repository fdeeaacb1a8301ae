package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/sizedcache"
)

// Effect is the effect of a statement that matches.
type Effect string

// The effects. A statement that denies outweighs all that allow.
const (
	Allow Effect = "Allow"
	Deny  Effect = "Deny"
)

// Document is a parsed policy document.
type Document struct {
	Version    string // "2012-10-17", or "2008-10-17", which knows no variables and is the default
	ID         string
	Statements []*Statement
	Text       string

	keys   []string // condition keys and variables that it reads, sorted
	values int      // in its lists
}

// Size returns about how many bytes the document takes in memory, text and all.
func (d *Document) Size() int64 {
	const perStatement, perValue = 512, 160
	return int64(2*len(d.Text) + perStatement*len(d.Statements) + perValue*d.values)
}

// Statement is one statement of a document.
type Statement struct {
	SID        string
	Effect     Effect
	Start, End Position // in the text of the document; End is just behind it

	actions    actions
	notAction  bool
	resources  []arnPattern // none in a trust policy
	notRes     bool
	principals *principals // none in an identity-based policy
	notPrinc   bool
	conditions []condition
	principal  node // as written, for Principals
}

// Kind is the purpose of a document. It determines which elements the document must and must not have.
type Kind int

// The kinds of documents.
const (
	Identity Kind = iota // of a user, group or role, a permissions boundary, or a session policy: no principal
	Trust                // of a role: a principal, no resource
	Resource             // of any other resource: both
)

// Parse reads a document strictly. The error is a *MalformedError.
func Parse(kind Kind, text string) (*Document, error) {
	root, err := parseJSON(text)
	if err != nil {
		if kind == Trust {
			return nil, malformed("This policy contains invalid Json: %v", err)
		}
		return nil, malformed("Syntax errors in policy: %v.", err)
	}
	d := &Document{Version: "2008-10-17", Text: text}
	if err := d.decodeNode(kind, root); err != nil {
		return nil, err
	}
	slices.Sort(d.keys)
	d.keys = slices.Compact(d.keys)
	return d, nil
}

// maxCompiled is the memory of the documents that Compile remembers, in bytes.
const maxCompiled = 64 << 20

// compiled remembers documents by kind and text. Authorization asks for the same few hundred all day.
var compiled = sizedcache.New[compiledKey, *Document](maxCompiled)

type compiledKey struct {
	kind Kind
	text string
}

// Compile is like Parse, and caches the results.
func Compile(kind Kind, text string) (*Document, error) {
	key := compiledKey{kind, text}
	if d, ok := compiled.Get(key); ok {
		return d, nil
	}
	d, err := Parse(kind, text)
	if err != nil {
		return nil, err
	}
	compiled.Add(key, d, d.Size())
	return d, nil
}

func (d *Document) decodeNode(kind Kind, root node) error {
	fields, ok := root.value.(members)
	if !ok {
		return malformed("Syntax errors in policy: the document is not a JSON object.")
	}
	var statements *node
	for i, field := range fields {
		switch field.name {
		case "Version":
			version, ok := field.value.(string)
			if !ok || (version != "2012-10-17" && version != "2008-10-17") {
				return malformed("The policy's Version must be \"2012-10-17\" or \"2008-10-17\", got %s.",
					d.Text[field.start:field.end])
			}
			d.Version = version
		case "Id":
			if d.ID, ok = field.value.(string); !ok {
				return malformed("Syntax errors in policy: Id must be a string, got %s.", d.Text[field.start:field.end])
			}
		case "Statement":
			statements = &fields[i].node
		default:
			return malformed("Syntax errors in policy: unknown field %q; a policy has Version, Id and Statement.",
				field.name)
		}
	}
	if statements == nil {
		return malformed("Syntax errors in policy: missing required field Statement.")
	}
	list, ok := statements.value.(elements)
	if !ok {
		list = elements{*statements}
	}
	if len(list) == 0 && kind == Trust {
		return malformed("AssumeRole policy must contain at least one statement.")
	}
	if len(list) == 0 {
		return malformed("Syntax errors in policy: Statement is empty.")
	}
	sids, lines := map[string]bool{}, findLines(d.Text)
	for _, n := range list {
		s, err := d.readStatement(kind, n, lines)
		if err != nil {
			return err
		}
		if s.SID != "" && sids[s.SID] {
			return malformed("Statement IDs (SID) in a single policy must be unique.")
		}
		sids[s.SID] = true
		d.Statements = append(d.Statements, s)
	}
	return nil
}

// readStatement reads one statement. Version comes first in nearly every document; where it does not, the fields have
// all been seen before the first statement is read.
func (d *Document) readStatement(kind Kind, n node, lines lines) (*Statement, error) {
	fields, ok := n.value.(members)
	if !ok {
		return nil, malformed("Syntax errors in policy: a statement must be a JSON object, got %s.",
			excerpt(d.Text[n.start:n.end]))
	}
	s := &Statement{Start: lines.position(n.start), End: lines.position(n.end)}
	given := map[string]bool{}
	variables := d.Version == "2012-10-17"
	for _, field := range fields {
		given[field.name] = true
		var err error
		switch field.name {
		case "Sid":
			s.SID, ok = field.value.(string)
			if !ok || kind == Identity && !isAlphanumeric(s.SID) {
				err = malformed(
					"Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular " +
						"expression [0-9A-Za-z]*")
			}
		case "Effect":
			effect, _ := field.value.(string)
			if s.Effect = Effect(effect); s.Effect != Allow && s.Effect != Deny {
				err = malformed("Invalid effect: %s. Effect must be \"Allow\" or \"Deny\".",
					excerpt(d.Text[field.start:field.end]))
			}
		case "Action", "NotAction":
			s.notAction = field.name == "NotAction"
			s.actions, err = d.readActions(kind, field)
		case "Resource", "NotResource":
			s.notRes = field.name == "NotResource"
			s.resources, err = d.readResources(kind, field, variables)
		case "Principal", "NotPrincipal":
			s.notPrinc = field.name == "NotPrincipal"
			s.principal = field.node
			s.principals, err = d.readPrincipals(kind, field)
		case "Condition":
			s.conditions, err = d.readConditions(field, variables)
		default:
			err = malformed("Syntax errors in policy: unknown field %q in a statement.", field.name)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, checkGiven(kind, given)
}

// checkGiven checks that a statement has the elements that it needs, and no two that exclude each other.
func checkGiven(kind Kind, given map[string]bool) error {
	for _, name := range []string{"Action", "Resource", "Principal"} {
		if given[name] && given["Not"+name] {
			return malformed("Syntax errors in policy: a statement has %s or Not%s, not both.", name, name)
		}
	}
	switch {
	case !given["Effect"]:
		return malformed("Missing required field Effect")
	case !given["Action"] && !given["NotAction"]:
		if kind == Trust {
			return malformed("Missing required field Action")
		}
		return malformed("Policy statement must contain actions.")
	case kind != Trust && !given["Resource"] && !given["NotResource"]:
		return malformed("Policy statement must contain resources.")
	case kind != Identity && !given["Principal"] && !given["NotPrincipal"]:
		return malformed("Missing required field Principal")
	}
	return nil
}

// strings reads a string or a list of strings.
func (d *Document) strings(field member) ([]string, error) {
	list, ok := field.value.(elements)
	if !ok {
		list = elements{field.node}
	}
	values := make([]string, 0, len(list))
	for _, n := range list {
		s, ok := n.value.(string)
		if !ok {
			return nil, malformed("Syntax errors in policy: %s must be a string or a list of strings, got %s.",
				field.name, excerpt(d.Text[n.start:n.end]))
		}
		values = append(values, s)
	}
	d.values += len(values)
	return values, nil
}

func (d *Document) readActions(kind Kind, field member) (actions, error) {
	list, err := d.strings(field)
	if err != nil {
		return actions{}, err
	}
	if len(list) == 0 {
		return actions{}, malformed("Policy statement must contain actions.")
	}
	for _, action := range list {
		if err := checkAction(kind, action); err != nil {
			return actions{}, err
		}
	}
	return compileActions(list), nil
}

func (d *Document) readResources(kind Kind, field member, variables bool) ([]arnPattern, error) {
	if kind == Trust {
		return nil, malformed("Has prohibited field %s", field.name)
	}
	list, err := d.strings(field)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, malformed("Policy statement must contain resources.")
	}
	d.values += 2 * len(list) // an ARN has several patterns
	patterns := make([]arnPattern, 0, len(list))
	for _, resource := range list {
		if err := checkResource(resource); err != nil {
			return nil, err
		}
		p := compileARN(resource, syntax{wildcards: true, variables: variables})
		for _, part := range p.parts {
			d.noteVariables(part)
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

func (d *Document) readConditions(field member, variables bool) ([]condition, error) {
	operators, ok := field.value.(members)
	if !ok {
		return nil, malformed("Syntax errors in policy: Condition must be an object of operators, got %s.",
			excerpt(d.Text[field.start:field.end]))
	}
	var all []condition
	for _, operator := range operators {
		keys, ok := operator.value.(members)
		if !ok {
			return nil,
				malformed("Syntax errors in policy: the condition operator %s must hold an object of condition keys.",
					operator.name)
		}
		for _, key := range keys {
			values, err := d.conditionValues(key)
			if err != nil {
				return nil, err
			}
			c, err := compileCondition(operator.name, key.name, values, variables)
			if err != nil {
				return nil, err
			}
			d.keys = append(d.keys, key.name)
			for _, v := range c.patterns {
				d.noteVariables(v)
			}
			for _, a := range c.arns {
				for _, v := range a.parts {
					d.noteVariables(v)
				}
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// conditionValues reads the values of one key: AWS takes numbers and booleans beside strings.
func (d *Document) conditionValues(key member) ([]string, error) {
	list, ok := key.value.(elements)
	if !ok {
		list = elements{key.node}
	}
	values := make([]string, 0, len(list))
	for _, n := range list {
		switch v := n.value.(type) {
		case string:
			values = append(values, v)
		case json.Number:
			values = append(values, v.String())
		case bool:
			if v {
				values = append(values, "true")
			} else {
				values = append(values, "false")
			}
		default:
			return nil,
				malformed(
					"Syntax errors in policy: the values of the condition key %s must be strings, numbers or "+
						"booleans, got %s.", key.name, excerpt(d.Text[n.start:n.end]))
		}
	}
	d.values += 2 + len(values) // a condition is larger than a value
	return values, nil
}

func (d *Document) noteVariables(p pattern) {
	for _, part := range p.parts {
		if part.key != "" {
			d.keys = append(d.keys, part.key)
		}
	}
}

func excerpt(s string) string {
	const longest = 80
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}
