// Package facts holds what is known of EKS, and compares Coracle with it.
//
// facts.yaml lists the facts: what is asked, what EKS answers, and how that is known. This file reads the list and
// checks answers, without asking anything; facts_test.go asks a daemon. A user of EKS who finds another difference adds
// an entry to the list.
package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/semver"
	"k8s.io/client-go/util/jsonpath"
)

// State is the state of an account that a fact needs.
type State string

const (
	// Empty is a region in which nothing was ever created.
	Empty State = "empty"
	// API is a region with clusters, and a fact that does not depend on them.
	API State = "api"
	// Plain is a cluster that was created by the command line with nothing optional.
	Plain State = "plain"
	// Nodes is a cluster with access entries, its audit log enabled and a managed node group with nothing optional.
	Nodes State = "nodes"
)

// Fact is one thing that EKS is known to answer. Exactly one of Is, Matches, Absent, Has, Names, Only, Fails and Min is
// set.
type Fact struct {
	// ID names the fact: lower-case words with dashes between them.
	ID string `yaml:"id"`
	// On is where the fact holds.
	On State `yaml:"on"`
	// Ask is the command line of aws, kubectl or coracle, with the variables of the fixture. It changes nothing, unless
	// it is refused, or is one of the commands with which the fixture was made.
	Ask string `yaml:"ask"`
	// Path selects a part of the answer, as the JSONPath of kubectl does: cluster.resourcesVpcConfig.subnetIds[0]. All
	// of the answer without it.
	Path string `yaml:"path"`

	// Is is the value, all of it.
	Is *any `yaml:"is"`
	// Matches is a regular expression that the value matches, which is a string or a list of them.
	Matches string `yaml:"matches"`
	// Absent means that the answer has nothing at the path.
	Absent bool `yaml:"absent"`
	// Has is what the value has among others: members of an object, elements of a list, text of a string.
	Has *any `yaml:"has"`
	// Names are names that the value has among others: it is a list of strings, or of objects by metadata.name or name.
	Names []string `yaml:"names"`
	// Only are the names that the value has, in any order.
	Only []string `yaml:"only"`
	// Fails is the code of the error. Message is its text, or a regular expression for it if it begins with ^.
	Fails   string `yaml:"fails"`
	Message string `yaml:"message"`
	// Min is the least value, or the least length of a list or an object.
	Min *float64 `yaml:"min"`

	// Since and Until are the first and the last minor version of Kubernetes for which the fact is known.
	Since string `yaml:"since"`
	Until string `yaml:"until"`
	// From is how the fact is known.
	From string `yaml:"from"`
	// Differs is where the documentation says that Coracle does not do that, "FILE: sentence": the fact must not hold.
	Differs string `yaml:"differs"`

	// Line is the line of the list where the fact begins.
	Line int `yaml:"-"`
}

// Parse reads a list of facts.
func Parse(text []byte) ([]Fact, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var facts []Fact
	if err := decoder.Decode(&facts); err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	for i, item := range document.Content[0].Content {
		facts[i].Line = item.Line
	}
	return facts, nil
}

// id is the form of a fact's name.
var id = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Validate returns what is wrong with how a fact is written.
func (f Fact) Validate() error {
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if !id.MatchString(f.ID) {
		report("the id %q is not made of lower-case words with dashes between them", f.ID)
	}
	if !slices.Contains([]State{Empty, API, Plain, Nodes}, f.On) {
		report("on is %q, not empty, api, plain or nodes", f.On)
	}
	if program, _, _ := strings.Cut(f.Ask, " "); !slices.Contains([]string{"aws", "kubectl", "coracle"}, program) {
		report("ask begins with %q, not with aws, kubectl or coracle", program)
	} else if program == "kubectl" && (f.On == Empty || f.On == API) {
		report("kubectl needs a cluster: on is plain or nodes")
	}
	if f.From == "" {
		report("from is missing: how is the fact known?")
	}
	if n := f.assertions(); n != 1 {
		report("there are %d of is, matches, absent, has, names, only, fails and min: there must be one", n)
	}
	if f.Message != "" && f.Fails == "" {
		report("message needs fails, the code of the error")
	}
	if f.Fails != "" && f.Path != "" {
		report("an error has no path")
	}
	for _, expression := range []string{f.Matches, f.Message} {
		if _, err := regexp.Compile(expression); err != nil && (expression == f.Matches || expression[0] == '^') {
			report("%w", err)
		}
	}
	if _, err := f.query(); err != nil {
		report("path: %w", err)
	}
	for _, version := range []string{f.Since, f.Until} {
		if version != "" && !semver.IsValid("v"+version) {
			report("%q is not a minor version", version)
		}
	}
	if file, sentence, _ := strings.Cut(f.Differs, ": "); f.Differs != "" && (file == "" || sentence == "") {
		report(`differs is not "FILE: sentence"`)
	}
	return errors.Join(wrong...)
}

func (f Fact) assertions() int {
	n := 0
	for _, set := range []bool{f.Is != nil, f.Matches != "", f.Absent, f.Has != nil, f.Names != nil, f.Only != nil,
		f.Fails != "", f.Min != nil} {
		if set {
			n++
		}
	}
	return n
}

// Documented returns the file and the sentence of a documented difference, both empty without one.
func (f Fact) Documented() (file, sentence string) {
	file, sentence, _ = strings.Cut(f.Differs, ": ")
	return file, sentence
}

// AppliesTo reports whether the fact is known for a minor version of Kubernetes.
func (f Fact) AppliesTo(version string) bool {
	return (f.Since == "" || semver.Compare("v"+version, "v"+f.Since) >= 0) &&
		(f.Until == "" || semver.Compare("v"+version, "v"+f.Until) <= 0)
}

// Answer is what a command printed, and its error if it failed.
type Answer struct {
	Out, Errs string
	Err       error
}

// refusal has the code and the text of an error of aws, and rejection that of the API server by kubectl.
var (
	refusal   = regexp.MustCompile(`(?s)An error occurred \(([\w.]+)\) when calling the \w+ operation(?: \(.*?\))?:(.*)`)
	rejection = regexp.MustCompile(`(?s)^(?:error: )?(?:Error from server|.*?: admission webhook.*?) \((\w+)\): (.*)`)
)

// failure returns the code and the text of the error.
func (a Answer) failure() (code, message string) {
	for _, form := range []*regexp.Regexp{refusal, rejection} {
		if m := form.FindStringSubmatch(a.Errs); m != nil {
			text, _, _ := strings.Cut(m[2], "\n\nAdditional error details:") // of version 2 of aws
			return m[1], strings.TrimSpace(text)
		}
	}
	return "", strings.TrimSpace(a.Errs)
}

// Check returns how an answer differs from what EKS answers. The variables of the fixture stand in what the fact
// expects ($CLUSTER).
func (f Fact) Check(a Answer, variables map[string]string) error {
	if f.Fails != "" {
		return f.checkFailure(a, variables)
	}
	if a.Err != nil {
		return fmt.Errorf("failed: %w: %s", a.Err, strings.TrimSpace(a.Errs))
	}
	found, err := f.find(a.Out)
	if err != nil {
		return err
	}
	value, present := single(found)
	switch {
	case f.Absent:
		if present {
			return fmt.Errorf("got %s, want nothing", show(value))
		}
		return nil
	case f.Names != nil || f.Only != nil:
		return f.checkNames(found, variables)
	case f.Min != nil:
		if n := size(found); n < *f.Min {
			return fmt.Errorf("got %v, want at least %v", n, *f.Min)
		}
		return nil
	case !present:
		return errors.New("got nothing")
	case f.Is != nil:
		if want := normalize(expand(*f.Is, variables)); !reflect.DeepEqual(value, want) {
			return fmt.Errorf("got %s, want %s", show(value), show(want))
		}
	case f.Has != nil:
		if want := normalize(expand(*f.Has, variables)); !has(value, want) {
			return fmt.Errorf("got %s, which lacks %s", show(value), show(want))
		}
	default:
		expression := regexp.MustCompile(replace(f.Matches, variables, regexp.QuoteMeta))
		for _, v := range listOf(found) {
			text, isText := v.(string)
			if !isText {
				text = show(v)
			}
			if !expression.MatchString(text) {
				return fmt.Errorf("got %q, which does not match %s", text, expression)
			}
		}
	}
	return nil
}

func (f Fact) checkFailure(a Answer, variables map[string]string) error {
	if a.Err == nil {
		return fmt.Errorf("succeeded, want %s: %s", f.Fails, f.Message)
	}
	code, message := a.failure()
	if code != f.Fails {
		return fmt.Errorf("failed with %q %q, want %s: %s", code, message, f.Fails, f.Message)
	}
	if strings.HasPrefix(f.Message, "^") {
		expression := regexp.MustCompile(replace(f.Message, variables, regexp.QuoteMeta))
		if !expression.MatchString(message) {
			return fmt.Errorf("the message is %q, which does not match %s", message, expression)
		}
		return nil
	}
	if want := replace(f.Message, variables, nil); want != "" && message != want {
		return fmt.Errorf("the message is %q, want %q", message, want)
	}
	return nil
}

func (f Fact) checkNames(found []any, variables map[string]string) error {
	got := []string{}
	for _, v := range listOf(found) {
		got = append(got, nameOf(v))
	}
	wanted := append(slices.Clone(f.Names), f.Only...)
	for i := range wanted {
		wanted[i] = replace(wanted[i], variables, nil)
	}
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(some, name) })
	}
	missing, extra := without(wanted, got), without(got, wanted)
	if len(missing) > 0 || f.Only != nil && len(extra) > 0 {
		if f.Only == nil {
			extra = nil
		}
		return fmt.Errorf("got %q: missing %q, too many %q", got, missing, extra)
	}
	return nil
}

// query returns the compiled path, nil without one.
func (f Fact) query() (*jsonpath.JSONPath, error) {
	if f.Path == "" {
		return nil, nil
	}
	path := f.Path
	if !strings.HasPrefix(path, "[") {
		path = "." + path
	}
	q := jsonpath.New(f.ID).AllowMissingKeys(true)
	return q, q.Parse("{" + path + "}")
}

// find returns what an answer has at the path. An answer that is not JSON is a string.
func (f Fact) find(out string) ([]any, error) {
	var answer any = strings.TrimSpace(out)
	if err := json.Unmarshal([]byte(out), &answer); err != nil && f.Path != "" {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	query, err := f.query()
	if err != nil {
		return nil, err
	}
	if query == nil {
		return []any{answer}, nil
	}
	results, err := query.FindResults(answer)
	if err != nil {
		return nil, err
	}
	var found []any
	for _, list := range results {
		for _, v := range list {
			found = append(found, v.Interface())
		}
	}
	return found, nil
}

// single returns the value at a path: what was found, or a list of it if that is more than one.
func single(found []any) (value any, present bool) {
	switch len(found) {
	case 0:
		return nil, false
	case 1:
		return found[0], true
	default:
		return found, true
	}
}

// listOf returns the elements of a list that was found, or what was found.
func listOf(found []any) []any {
	if len(found) == 1 {
		if list, isList := found[0].([]any); isList {
			return list
		}
	}
	return found
}

func size(found []any) float64 {
	if len(found) == 1 {
		switch v := found[0].(type) {
		case float64:
			return v
		case map[string]any:
			return float64(len(v))
		}
	}
	return float64(len(listOf(found)))
}

// nameOf returns the name of an object of Kubernetes or AWS, or a string itself.
func nameOf(v any) string {
	object, _ := v.(map[string]any)
	if metadata, is := object["metadata"].(map[string]any); is {
		object = metadata
	}
	if name, is := object["name"].(string); is {
		return name
	}
	if text, is := v.(string); is {
		return text
	}
	return show(v)
}

// has reports whether a value has all of another one.
func has(value, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, _ := value.(map[string]any)
		for key, w := range want {
			if v, present := object[key]; !present || !has(v, w) {
				return false
			}
		}
		return object != nil
	case []any:
		list, _ := value.([]any)
		for _, w := range want {
			if !slices.ContainsFunc(list, func(v any) bool { return has(v, w) }) {
				return false
			}
		}
		return list != nil
	case string:
		switch v := value.(type) {
		case string:
			return strings.Contains(v, want)
		case []any:
			return slices.ContainsFunc(v, func(v any) bool { return v == want })
		}
	}
	return reflect.DeepEqual(value, want)
}

// expand replaces the variables in all strings of a value.
func expand(v any, variables map[string]string) any {
	switch v := v.(type) {
	case string:
		return replace(v, variables, nil)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = expand(v[i], variables)
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for key, member := range v {
			object[replace(key, variables, nil)] = expand(member, variables)
		}
		return object
	}
	return v
}

// variable is the form of a variable of the fixture.
var variable = regexp.MustCompile(`\$[A-Z_]+`)

// replace replaces the variables of a text. Other text that looks like one stays.
func replace(text string, variables map[string]string, quote func(string) string) string {
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		value, known := variables[name[1:]]
		switch {
		case !known:
			return name
		case quote != nil:
			return quote(value)
		}
		return value
	})
}

// normalize returns a value of YAML as JSON has it.
func normalize(v any) any {
	text, err := json.Marshal(v)
	var out any
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return err
	}
	return out
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
