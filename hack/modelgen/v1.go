package main

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"

	"github.com/coracle-eks/coracle/internal/aws/wire/model/pattern"
)

// v1Model is an api-2.json of aws-sdk-go v1.
type v1Model struct {
	Operations map[string]struct {
		HTTP   struct{ ResponseCode int }
		Input  *v1Ref
		Errors []v1Ref
	}
	Shapes map[string]*v1Shape
}

type v1Ref struct{ Shape string }

type v1Shape struct {
	Type    string
	Members map[string]v1Ref
	Member  *v1Ref
	Key     *v1Ref
	Value   *v1Ref
	Min     *float64
	Max     *float64
	Pattern string
	Error   *struct {
		Code           string
		HTTPStatusCode int
	}
}

func parseV1(path string) (*v1Model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &v1Model{}
	return m, json.Unmarshal(data, m)
}

// applyConstraints adds the constraints of members and the status of errors to what v2 says.
func (m *v1Model) applyConstraints(s *source) {
	seen := map[string]bool{}
	var visit func(goType, shape string)
	visit = func(goType, shape string) {
		st, old := s.structs[goType], m.Shapes[shape]
		if st == nil || old == nil || old.Type != "structure" || seen[goType] {
			return
		}
		seen[goType] = true
		members := map[string]v1Ref{}
		for name, ref := range old.Members {
			members[strings.ToLower(name)] = ref
		}
		for _, f := range st.fields {
			ref, ok := members[strings.ToLower(f.name)]
			if !ok {
				continue
			}
			target := m.Shapes[ref.Shape]
			f.limits = target.renderLimits()
			for target != nil && (target.Type == "list" || target.Type == "map") {
				if target.Type == "list" {
					ref = *target.Member
				} else {
					ref = *target.Value
				}
				target = m.Shapes[ref.Shape]
			}
			visit(ref.Shape, ref.Shape)
		}
	}
	for name, op := range m.Operations {
		if op.Input != nil {
			visit(name+"Input", op.Input.Shape)
		}
	}
	if s.hasSchemas {
		return
	}
	for i := range s.operations {
		op := &s.operations[i]
		op.status = cmp.Or(m.Operations[op.name].HTTP.ResponseCode, 200)
	}
	status := map[string]int{}
	for name, shape := range m.Shapes {
		if shape.Error != nil {
			status[name] = shape.Error.HTTPStatusCode
			status[shape.Error.Code] = shape.Error.HTTPStatusCode
		}
	}
	for _, e := range s.errors {
		if code := status[e.code]; code != 0 {
			e.status = code
		} else if code := status[e.goType]; code != 0 {
			e.status = code
		}
	}
}

func (s *v1Shape) renderLimits() string {
	switch s.Type {
	case "string":
		source := s.Pattern
		// A pattern that Go cannot read is left to the service.
		if _, err := pattern.Compile(source); err != nil || strings.Contains(source, "\n") {
			source = ""
		}
		return renderLimits(s.Min, s.Max, false, source)
	case "integer", "long", "float", "double":
		return renderLimits(s.Min, s.Max, true, "")
	case "list", "map", "blob":
		return renderLimits(s.Min, s.Max, false, "")
	}
	return ""
}
