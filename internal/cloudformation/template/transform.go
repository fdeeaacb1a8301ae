package template

// checkTransforms refuses macros other than AWS::LanguageExtensions.
func (t *Template) checkTransforms() error {
	for _, name := range t.Transforms {
		if name != languageExtensions {
			return errNoTransform(name)
		}
	}
	for _, section := range []string{"Resources", "Outputs", "Mappings", "Conditions"} {
		object, _ := t.root[section].(map[string]any)
		if argument, ok := object["Fn::Transform"]; ok {
			return errTransform(argument)
		}
	}
	return nil
}

// isServed reports whether all transforms of the template are served.
func (t *Template) isServed() bool { return t.checkTransforms() == nil }

// errTransform returns the error of Fn::Transform with an argument.
func errTransform(argument any) error {
	object, _ := argument.(map[string]any)
	name, ok := object["Name"].(string)
	if !ok {
		return errorf("Key Name of transform definition must be a string.")
	}
	return errNoTransform(name)
}

func errNoTransform(name string) error {
	return errorf("No transform named %s found. Coracle serves the transform %s only.", name, languageExtensions)
}
