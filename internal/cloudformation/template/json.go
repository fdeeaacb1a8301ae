package template

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

func parseJSON(body string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &syntax):
			return nil, notWellFormed("JSON", body, int(syntax.Offset)-1)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, notWellFormed("JSON", body, len(body))
		}
		return nil, errorf("Template format error: JSON not well-formed.")
	}
	end := int(decoder.InputOffset())
	if rest := strings.TrimLeft(body[end:], " \t\r\n"); rest != "" {
		return nil, notWellFormed("JSON", body, len(body)-len(rest))
	}
	if depthOf(value, maxDepth) > maxDepth {
		return nil, errTooDeep
	}
	return value, nil
}

// errTooDeep is the error of a template that is nested too deeply.
var errTooDeep = errorf("Template format error: Nesting depth is greater than maximum allowed, %d", maxDepth)

// depthOf returns how deeply a value is nested, or a number greater than limit when it is more.
func depthOf(value any, limit int) int {
	if limit < 0 {
		return 1
	}
	deepest := 0
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner, limit-1))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner, limit-1))
		}
	default:
		return 0
	}
	return deepest + 1
}
