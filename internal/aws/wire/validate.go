package wire

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// A violation is one constraint that an input breaks.
type violation struct {
	path    string // as AWS writes it: tags.1.member.key
	query   string // the parameter of an EC2 request
	value   string // "null" for a member that is missing, else quoted
	text    string // the value as it came, for EC2's sentences
	must    string // "have length less than or equal to 64"
	missing bool
}

// validate checks an input against the constraints of its members: required, length, range, pattern, and the values of
// enumerations. The error is the one that the service gives. EC2 leaves enumerations, patterns and sizes of pages to
// its handlers, each of which has codes of its own.
func (s *Service) validate(pl *plan, v reflect.Value) error {
	c := checker{ec2: s.Protocol == EC2Query, unchecked: s.unchecked}
	c.checkValue(pl, nil, v, "", "")
	if len(c.found) == 0 {
		return nil
	}
	first := c.found[0]
	switch {
	case s == EC2 && first.missing:
		return &Error{Code: "MissingParameter", Message: "The request must contain the parameter " + first.query,
			Status: http.StatusBadRequest}
	case s == EC2:
		return &Error{Code: "InvalidParameterValue",
			Message: fmt.Sprintf("Value ( %s ) for parameter %s is invalid. It must %s.", first.text, first.path,
				first.must), Status: http.StatusBadRequest}
	case s == ECR:
		must := first.must
		if pattern, ok := strings.CutPrefix(must, "satisfy regular expression pattern: "); ok {
			must = "satisfy regular expression '" + pattern + "'"
		}
		return &Error{Code: s.invalid, Message: fmt.Sprintf(
			"Invalid parameter at '%s' failed to satisfy constraint: 'must %s'", first.path, must),
			Status: http.StatusBadRequest}
	}
	sentences := make([]string, len(c.found))
	for i, f := range c.found {
		sentences[i] = fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: Member must %s", f.value, f.path,
			f.must)
	}
	plural := ""
	if len(c.found) > 1 {
		plural = "s"
	}
	return &Error{
		Code:    s.invalid,
		Message: fmt.Sprintf("%d validation error%s detected: %s", len(c.found), plural, strings.Join(sentences, "; ")),
		Status:  http.StatusBadRequest,
	}
}

// membersLimit and textLimit bound what the model does not: each member of a request costs its handler work, and may be
// a resource to authorize. No operation that is served has a list whose documented maximum is larger and not in the
// model, as the 10,000 events of PutLogEvents are. The longest text of the query protocols is a policy document of
// IAM, unless the service says otherwise.
var (
	membersLimit = &model.Constraint{Max: new(1000.0)}
	textLimit    = &model.Constraint{Max: new(131072.0)}
)

// textLimit returns the limit of texts that have none in the model.
func (s *Service) textLimit() *model.Constraint {
	if s.longest > 0 {
		return &model.Constraint{Max: &s.longest}
	}
	return textLimit
}

type checker struct {
	ec2       bool
	unchecked []string // see Service
	found     []violation
}

// maxViolations bounds the message that a hostile input can provoke.
const maxViolations = 10

func (c *checker) add(v violation) {
	if len(c.found) < maxViolations {
		c.found = append(c.found, v)
	}
}

func (c *checker) checkValue(pl *plan, limit *model.Constraint, v reflect.Value, path, query string) {
	v, _ = indirect(v)
	if limit == nil {
		limit = pl.limit
	}
	if limit != nil && !c.checkLimit(pl, limit, v, path, query) {
		return // its members are more than a request may have
	}
	switch pl.kind {
	case kindString:
		if !c.ec2 && pl.enum != nil && v.Len() > 0 && !pl.enum[v.String()] {
			c.add(violation{path: path, value: quoteValue(v.String()), text: v.String(),
				must: "satisfy enum value set: [" + strings.Join(pl.values, ", ") + "]"})
		}
	case kindStruct:
		for _, f := range pl.fields {
			if slices.Contains(c.unchecked, f.goName) {
				continue
			}
			p, q := f.display, f.query
			if path != "" {
				p, q = path+"."+p, query+"."+q
			}
			m, present := indirect(v.Field(f.index))
			if !present {
				if f.limit != nil && f.limit.Required {
					c.add(violation{path: p, query: q, value: "null", must: "not be null", missing: true})
				}
				continue
			}
			if c.ec2 && path == "" && f.goName == "MaxResults" {
				continue // each operation has a text of its own, see package resource
			}
			c.checkValue(f.plan, f.limit, m, p, q)
		}
	case kindList:
		if !c.descends(pl.elem) {
			return
		}
		for i := range v.Len() {
			n := strconv.Itoa(i + 1)
			c.checkValue(pl.elem, nil, v.Index(i), path+"."+n+".member", query+"."+n)
		}
	case kindMap:
		if !c.descends(pl.elem) {
			return
		}
		for _, key := range sortedKeys(v) {
			c.checkValue(pl.elem, nil, v.MapIndex(key), path+"."+key.String()+".member", query)
		}
	case kindUnion:
		if variant, value := pl.variantOf(v); variant != nil {
			c.checkValue(variant.plan, nil, value, path+"."+variant.name, query)
		}
	}
}

// descends reports whether elements of a list or map can break anything by themselves.
func (c *checker) descends(elem *plan) bool {
	switch elem.kind {
	case kindStruct, kindUnion, kindList, kindMap:
		return true
	}
	return elem.limit != nil || elem.enum != nil && !c.ec2
}

// checkLimit reports whether a value is no longer or larger than its limit allows, and notes what breaks the limit.
func (c *checker) checkLimit(pl *plan, limit *model.Constraint, v reflect.Value, path, query string) (within bool) {
	fail := func(must string) {
		text := describe(pl, v)
		c.add(violation{path: path, query: query, value: quoteValue(text), text: text, must: must})
	}
	var size float64
	what := "have length"
	switch pl.kind {
	case kindString:
		// AWS counts as Java does, in UTF-16 units. A text has at most as many of them as bytes, and at least a third:
		// long ones need no count.
		size = float64(v.Len())
		if limit.Max != nil && size > *limit.Max || limit.Min != nil && size < 3**limit.Min {
			size = float64(utf16Len(v.String()))
		}
	case kindBlob, kindList, kindMap:
		size = float64(v.Len())
	case kindInt:
		what, size = "have value", float64(v.Int())
	case kindFloat:
		what, size = "have value", v.Float()
	default:
		return true
	}
	switch {
	case limit.Min != nil && size < *limit.Min:
		fail(what + " greater than or equal to " + strconv.FormatFloat(*limit.Min, 'f', -1, 64))
	case limit.Max != nil && size > *limit.Max:
		fail(what + " less than or equal to " + strconv.FormatFloat(*limit.Max, 'f', -1, 64))
	}
	if limit.Pattern != nil && pl.kind == kindString && !c.ec2 && !limit.Pattern.MatchString(v.String()) {
		fail("satisfy regular expression pattern: " + limit.Source)
	}
	return limit.Max == nil || size <= *limit.Max
}

// describe shows a value in a message, cut where it would fill the screen.
func describe(pl *plan, v reflect.Value) string {
	var text string
	switch pl.kind {
	case kindString:
		text = v.String()
	case kindInt, kindFloat:
		text = string(appendText(nil, pl, formatDefault, v))
	default:
		text = string(appendJSON(nil, pl, formatDefault, v))
	}
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "..."
	}
	return text
}

func quoteValue(s string) string { return "'" + s + "'" }

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
