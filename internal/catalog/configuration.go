package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yamlv3 "go.yaml.in/yaml/v3"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/coracle-eks/coracle/internal/document"
)

// Limits of configurations. AWS names none; those of Helm's charts for EKS have a few KiB.
const (
	maxConfiguration = 64 << 10
	maxExpanded      = 256 << 10 // once aliases are replaced
	maxUnreadable    = 1000      // bytes of the parser's words
)

// checks bounds how many configurations are checked at a time: a problem takes some hundred times the memory of the
// value that it is about.
var checks = make(chan struct{}, 4)

// ConfigurationError describes invalid configurationValues, in the words of EKS: its text is the message of the
// API.
type ConfigurationError struct {
	// Problems lists the violations of the schema, "$.resources.limits: is missing but it is required"; empty when the
	// text cannot be read at all.
	Problems []string
	// Unreadable is the parse error of a text that is neither JSON nor YAML.
	Unreadable error
}

func (e *ConfigurationError) Error() string {
	if len(e.Problems) == 0 {
		return fmt.Sprintf(
			"ConfigurationValue provided in request is not supported: it is not a valid JSON or YAML document: %v",
			e.Unreadable)
	}
	return "ConfigurationValue provided in request is not supported: Json schema validation failed with error: [" +
		strings.Join(e.Problems, ", ") + "]"
}

func (e *ConfigurationError) Unwrap() error { return e.Unreadable }

// Check checks configurationValues, JSON or YAML, against the version's schema. The error is a [*ConfigurationError].
// No configuration is a good one, unless the version requires one. While many are checked, it waits as long
// as ctx lasts.
func (v Version) Check(ctx context.Context, configuration string) error {
	select {
	case checks <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-checks }()
	value, err := readConfiguration(configuration)
	if err != nil {
		return err
	}
	if strings.TrimSpace(configuration) == "" {
		if v.RequiresConfiguration {
			return &ConfigurationError{Problems: []string{"$: is missing but it is required"}}
		}
		return nil
	}
	err = v.source.schema.Validate(value)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return &ConfigurationError{Problems: problemsOf(invalid, value)}
	}
	return err
}

// readConfiguration returns the value of a text of JSON or YAML, nil for none. Integers are int64, other numbers
// float64.
func readConfiguration(text string) (value any, err error) {
	if len(text) > maxConfiguration {
		return nil, &ConfigurationError{Unreadable: fmt.Errorf("it is larger than %d KiB", maxConfiguration>>10)}
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var asJSON []byte
	if err = document.CheckYAMLWithin([]byte(text), maxExpanded); err == nil {
		asJSON, err = yaml.YAMLToJSONStrict([]byte(text))
	}
	if err != nil {
		// The parser's package and conversion are of no interest to who wrote the text.
		why := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
		why = cut(strings.TrimPrefix(why, "unmarshal errors:\n  "), maxUnreadable)
		return nil, &ConfigurationError{Unreadable: errors.New(why)}
	}
	// The converter reads the first document and forgets the others.
	documents := yamlv3.NewDecoder(strings.NewReader(text))
	var first, second yamlv3.Node
	if documents.Decode(&first) == nil && documents.Decode(&second) == nil {
		return nil, &ConfigurationError{Unreadable: errors.New("it has to be one document")}
	}
	if err := kubejson.Unmarshal(asJSON, &value); err != nil {
		return nil, &ConfigurationError{Unreadable: err}
	}
	return value, nil
}

// decodeConfiguration returns a configuration, nil for none.
func decodeConfiguration(text string) (map[string]any, error) {
	value, err := readConfiguration(text)
	if err != nil || value == nil {
		return nil, err
	}
	config, isMap := value.(map[string]any)
	if !isMap {
		return nil, &ConfigurationError{Problems: []string{fmt.Sprintf("$: %s found, object expected",
			schemaType(value))}}
	}
	return config, nil
}

// mergeValues merges the configuration of a user into the defaults, as Helm merges values: objects field by field, null
// removes, all else replaces. It may share parts with both, and changes neither.
func mergeValues(defaults, configured map[string]any) map[string]any {
	out := maps.Clone(defaults)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range configured {
		mine, isMap := value.(map[string]any)
		theirs, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			out[key] = mergeValues(theirs, mine)
		} else {
			out[key] = value // null too, so that templates may ask for it
		}
	}
	return out
}

// differently returns a value with the same form in which every leaf says something else.
func differently(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = differently(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = differently(v[i])
		}
		return out
	case string:
		return v + "0"
	case bool:
		return !v
	case int64:
		return v + 1
	case float64:
		return v + 1
	}
	return v
}
