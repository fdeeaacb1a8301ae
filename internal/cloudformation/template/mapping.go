package template

import "slices"

// findInMap evaluates Fn::FindInMap.
func (e *evaluator) findInMap(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) < 3 {
		return nil, errFindInMap
	}
	byDefault, hasDefault := any(nil), false
	if len(list) == 4 && e.bound.template.hasExtensions() {
		options, _ := list[3].(map[string]any)
		if byDefault, hasDefault = options["DefaultValue"]; !hasDefault {
			return nil, errFindInMap
		}
		list = list[:3]
	}
	if len(list) != 3 {
		return nil, errFindInMap
	}
	names := make([]string, 3)
	for i, item := range list {
		name, known, err := e.evaluateText(item, errFindInMap)
		if err != nil || !known {
			return Unknown, err
		}
		names[i] = name
	}
	value, err := e.lookUp(names[0], names[1], names[2])
	if err != nil && hasDefault {
		return e.evaluate(byDefault)
	}
	if err != nil {
		return nil, err
	}
	if e.lookups++; e.lookups > maxDepth { // a value may look up another one, and that the first
		return nil, errTooDeep
	}
	defer func() { e.lookups-- }()
	return e.evaluate(value)
}

// lookUp returns a value of the Mappings section.
func (e *evaluator) lookUp(name, key, attribute string) (any, error) {
	mapping, ok := e.bound.mappings[name].(map[string]any)
	if !ok {
		return nil, errorf("Template error: Mapping named '%s' is not present in the 'Mappings' section of template.",
			name)
	}
	attributes, _ := mapping[key].(map[string]any)
	value, ok := attributes[attribute]
	if !ok {
		return nil, errorf("Template error: Unable to get mapping for %s::%s::%s", name, key, attribute)
	}
	return value, nil
}

// checkFindInMap checks the form of Fn::FindInMap and that it names a mapping.
func (c *checker) checkFindInMap(argument any) error {
	list, ok := argument.([]any)
	extended := c.template.hasExtensions()
	if !ok || len(list) < 3 || len(list) > 4 || len(list) == 4 && !extended {
		return errFindInMap
	}
	for _, item := range list[:3] {
		if object, isObject := item.(map[string]any); isObject {
			name, _ := functionOf(object)
			if !extended && !slices.Contains([]string{"Ref", "Fn::FindInMap"}, name) {
				return errFindInMap
			}
		} else if _, isText := scalarText(item); !isText {
			return errFindInMap
		}
	}
	if name, isText := list[0].(string); isText && len(list) == 3 {
		if _, ok := c.mappings[name]; !ok {
			return errorf("Template error: Mapping named '%s' is not present in the 'Mappings' section of template.", name)
		}
	}
	for _, item := range list {
		if err := c.checkReferences(item); err != nil {
			return err
		}
	}
	return nil
}
