package fluentbit

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The keys of the ConfigMap.
const (
	KeyFilters    = "filters.conf"
	KeyOutputs    = "output.conf"
	KeyParsers    = "parsers.conf"
	KeyProcessLog = "flb_log_cw"
)

// MaxCharacters is the number of characters that all values of the ConfigMap may have together.
const MaxCharacters = 5300

// Config is a configuration of the log router.
type Config struct {
	// ProcessLog says that the log router ships its own log to CloudWatch Logs: flb_log_cw.
	ProcessLog bool
	// Filters are the filters, in the order in which records pass them.
	Filters []Filter
	// Outputs are the outputs; there is at least one.
	Outputs []Output
	// Parsers are the parsers, with distinct names.
	Parsers []Parser
}

// Parser returns the parser of that name, or nil.
func (c *Config) Parser(name string) *Parser {
	for i := range c.Parsers {
		if c.Parsers[i].Name == name {
			return &c.Parsers[i]
		}
	}
	return nil
}

// Unavailable returns the names of the output plugins to whose services the log router does not send, each once.
func (c *Config) Unavailable() []string {
	var names []string
	for _, o := range c.Outputs {
		if o.CloudWatch == nil && !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	return names
}

// Error is a mistake in a configuration.
type Error struct {
	// File is the key of the ConfigMap: "output.conf". It is empty when no single key is wrong.
	File string
	// Line is the line in the file, from 1; 0 when the error is about the whole file.
	Line int
	// Section is the section with the line: "[OUTPUT] cloudwatch_logs". It is empty outside of sections.
	Section string
	// Reason says what is wrong. It has EKS's words where they are known, so that it can stand in EKS's event:
	// "amazon_data_firehose is not a supported output plugin".
	Reason string
	// Advice says what to do; it may be empty.
	Advice string
}

// Error returns the reason, where it is, and what to do.
func (e *Error) Error() string {
	var where []string
	if e.File != "" {
		where = append(where, e.File)
	}
	if e.Line > 0 {
		where = append(where, fmt.Sprintf("line %d", e.Line))
	}
	if e.Section != "" {
		where = append(where, "section "+e.Section)
	}
	text := e.Reason
	if len(where) > 0 {
		text += " (" + strings.Join(where, ", ") + ")"
	}
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Validate reports what is wrong with the data of the ConfigMap, or nil. The error is an [*Error].
func Validate(data map[string]string) error {
	_, err := Parse(data)
	return err
}

// Parse returns the configuration that the data of the ConfigMap holds. The error is an [*Error].
func Parse(data map[string]string) (*Config, error) {
	characters := 0
	for _, key := range sortedKeys(data) {
		characters += utf8.RuneCountInString(data[key])
		if key != KeyFilters && key != KeyOutputs && key != KeyParsers && key != KeyProcessLog {
			return nil, &Error{Reason: fmt.Sprintf("%.100q is not a supported key of the logging configmap", key),
				Advice: "use filters.conf, output.conf, parsers.conf and flb_log_cw"}
		}
	}
	if characters > MaxCharacters {
		return nil, &Error{
			Reason: fmt.Sprintf("the logging configmap has %d characters, which exceeds the limit of %d", characters,
				MaxCharacters),
			Advice: "shorten it"}
	}
	c := &Config{}
	if text, ok := data[KeyProcessLog]; ok {
		on, ok := parseBool(strings.TrimSpace(text))
		if !ok {
			return nil, &Error{File: KeyProcessLog, Reason: fmt.Sprintf("%q is not a boolean", text),
				Advice: `use "true" or "false"`}
		}
		c.ProcessLog = on
	}
	budget := &regexBudget{}
	parsers, err := parseSections(KeyParsers, "PARSER", data[KeyParsers])
	if err != nil {
		return nil, err
	}
	for _, s := range parsers {
		p, err := newParser(s, budget)
		if err != nil {
			return nil, err
		}
		if c.Parser(p.Name) != nil {
			return nil, s.newError("", fmt.Sprintf("parser %q is defined twice", p.Name), "remove one of them")
		}
		c.Parsers = append(c.Parsers, p)
	}
	filters, err := parseSections(KeyFilters, "FILTER", data[KeyFilters])
	if err != nil {
		return nil, err
	}
	for _, s := range filters {
		f, err := newFilter(s, c, budget)
		if err != nil {
			return nil, err
		}
		c.Filters = append(c.Filters, f)
	}
	outputs, err := parseSections(KeyOutputs, "OUTPUT", data[KeyOutputs])
	if err != nil {
		return nil, err
	}
	for _, s := range outputs {
		o, err := newOutput(s, budget)
		if err != nil {
			return nil, err
		}
		c.Outputs = append(c.Outputs, o)
	}
	if len(c.Outputs) == 0 {
		return nil, &Error{File: KeyOutputs, Reason: "at least one supported output plugin has to be provided",
			Advice: "add an [OUTPUT] section, such as one of cloudwatch_logs"}
	}
	return c, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// parseBool returns the value of a boolean as Fluent Bit writes it.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "on", "yes":
		return true, true
	case "false", "off", "no":
		return false, true
	}
	return false, false
}
