package eksctl

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// exchange is a request of eksctl and its answer, as a recording has them.
type exchange struct {
	Service string `json:"service"` // as the signature names it: eks, cloudformation
	Method  string `json:"method"`
	URI     string `json:"uri"`
	Target  string `json:"target,omitempty"` // the header X-Amz-Target of the JSON protocols
	Type    string `json:"type,omitempty"`   // the header Content-Type
	// Form is the body of the query protocols, Body that of the others.
	Form url.Values `json:"form,omitempty"`
	Body string     `json:"body,omitempty"`
	// Status is the answer's HTTP status, Answer its members.
	Status int    `json:"status"`
	Answer []leaf `json:"answer"`
}

// leaf is a member of an answer: a path, and the value where it is an identifier or a status.
type leaf struct {
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// operation names a request in messages.
func (e exchange) operation() string {
	return strings.Join(strings.Fields(strings.Join([]string{e.Service, e.Form.Get("Action"), e.Target, e.Method,
		e.URI}, " ")), " ")
}

// asks reports whether a request changes nothing.
func (e exchange) asks() bool {
	name := e.Form.Get("Action") + e.Target[strings.LastIndex(e.Target, ".")+1:]
	for _, prefix := range []string{"Describe", "List", "Get"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "" && e.Method == http.MethodGet
}

// encoded returns the request's body.
func (e exchange) encoded() string {
	if e.Form != nil {
		return e.Form.Encode()
	}
	return e.Body
}

// status matches the paths of members that change while a resource is made.
var status = regexp.MustCompile(`(?i)(^|\.)(stack|resource|execution|rollback)?status(\.item)?$`)

// passing matches the statuses in which nothing stays: whoever asks a moment later has the next one.
var passing = regexp.MustCompile(`(?i)_?(ing|progress)$|^pending`)

// issue matches the paths of what is wrong for a while, as with nodes that start.
var issue = regexp.MustCompile(`\.health\.issues\b`)

// flatten returns the members of an answer in JSON or XML, each path once, but all values of identifiers and statuses.
func flatten(answer []byte) ([]leaf, error) {
	all, err := members(answer)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var kept []leaf
	for _, l := range all {
		if status.MatchString(l.Path) || identifiers.MatchString(l.Value) {
			if len(l.Value) > 2000 {
				continue // a template or a kubeconfig: what it names is named elsewhere
			}
		} else if l.Value = ""; seen[l.Path] {
			continue
		}
		seen[l.Path] = true
		kept = append(kept, l)
	}
	return kept, nil
}

func members(answer []byte) ([]leaf, error) {
	text := strings.TrimSpace(string(answer))
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "<"):
		return xmlMembers(xml.NewDecoder(strings.NewReader(text)))
	}
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the answer is neither JSON nor XML: %w", err)
	}
	return jsonMembers("", value), nil
}

func jsonMembers(path string, value any) []leaf {
	var found []leaf
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			found = append(found, jsonMembers(strings.TrimPrefix(path+"."+name, "."), v[name])...)
		}
	case []any:
		if len(v) == 0 { // which is not the path of its items: an empty list is awaited, too
			found = append(found, leaf{Path: path})
		}
		for _, item := range v {
			found = append(found, jsonMembers(path+"[]", item)...)
		}
	case nil:
	default:
		found = append(found, leaf{path, fmt.Sprint(v)})
	}
	return found
}

func xmlMembers(decoder *xml.Decoder) ([]leaf, error) {
	var found []leaf
	var path []string
	text, isLeaf := "", false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			path, text, isLeaf = append(path, t.Name.Local), "", true
		case xml.CharData:
			text += string(t)
		case xml.EndElement:
			if isLeaf {
				found = append(found, leaf{strings.Join(path, "."), text})
			}
			path, isLeaf = path[:len(path)-1], false
		}
	}
}

// identifiers matches what differs from one run to the next and appears in later requests: IDs of resources, UUIDs and
// the random parts of names. IDs of AMIs differ from one release to the next.
var identifiers = regexp.MustCompile(`ami-[0-9a-f]{17}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|` +
	`\b[0-9a-f]{17}\b|\ba-[0-9a-z]{17}\b|\b[0-9A-F]{32}\b|\b[0-9A-Z]{12,13}\b`)

// translation has the identifiers of a recording, and those of the replay in their place.
type translation map[string]string

// learn takes the identifiers of an answer, by the members that are alike but for them, in their order. IDs of AMIs are
// taken of Systems Manager alone: in a list, others may have come between.
func (t translation) learn(recorded, actual []leaf) {
	values := map[leaf][]string{}
	for _, l := range actual {
		values[l.shape()] = append(values[l.shape()], l.Value)
	}
	for _, l := range recorded {
		alike := values[l.shape()]
		if len(alike) == 0 {
			continue
		}
		values[l.shape()] = alike[1:]
		is := identifiers.FindAllString(alike[0], -1)
		for i, was := range identifiers.FindAllString(l.Value, -1) {
			_, known := t[was]
			if !known && (l.Path == "Parameter.Value" || !strings.HasPrefix(was, "ami-")) {
				t[was] = is[i]
			}
		}
	}
}

// shape returns a member without its identifiers.
func (l leaf) shape() leaf { return leaf{l.Path, identifiers.ReplaceAllString(l.Value, "#")} }

// in returns a text with the identifiers of the replay.
func (t translation) in(text string) string {
	return identifiers.ReplaceAllStringFunc(text, func(id string) string {
		if is, known := t[id]; known {
			return is
		}
		return id
	})
}

// request returns a recorded request as the replay sends it.
func (t translation) request(e exchange) exchange {
	path, err := url.PathUnescape(e.URI)
	if err != nil {
		path = e.URI
	}
	if translated := t.in(path); translated != path {
		e.URI = t.in(e.URI)
	}
	e.Body = t.in(e.Body)
	if e.Form != nil {
		form := url.Values{}
		for name, values := range e.Form {
			for _, value := range values {
				form.Add(name, t.in(value))
			}
		}
		e.Form = form
	}
	return e
}

// difference says what an answer lacks that the recorded one has: a member, or a status. It is "" if nothing.
func difference(recorded, actual []leaf) string {
	has := map[string]bool{}
	states := map[string][]string{}
	for _, l := range actual {
		has[l.Path] = true
		if status.MatchString(l.Path) {
			states[l.Path] = append(states[l.Path], l.Value)
		}
	}
	want := map[string][]string{}
	for _, l := range recorded {
		if !has[l.Path] && !issue.MatchString(l.Path) {
			return "no member " + l.Path
		}
		if status.MatchString(l.Path) {
			want[l.Path] = append(want[l.Path], l.Value)
		}
	}
	for path, values := range want {
		if slices.ContainsFunc(values, passing.MatchString) {
			continue
		}
		slices.Sort(values)
		slices.Sort(states[path])
		if !slices.Equal(values, states[path]) {
			return path + " is " + strconv.Quote(strings.Join(states[path], " ")) + ", want " +
				strconv.Quote(strings.Join(values, " "))
		}
	}
	return ""
}
