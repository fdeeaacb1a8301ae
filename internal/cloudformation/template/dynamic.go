package template

import (
	"context"
	"errors"
	"regexp"
	"strings"
)

// Dynamic references stand for parameters of the SSM Parameter Store within texts: {{resolve:ssm:name:version}}.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references.html

const (
	referenceStart = "{{resolve:"
	referenceEnd   = "}}"
)

var (
	storedReference = regexp.MustCompile(`^[a-zA-Z0-9_.\-/]+(:[0-9]+)?$`)
	versioned       = regexp.MustCompile(`:[0-9]+$`)
)

// secureProperties are the properties that may use ssm-secure: AWS::IAM::User is the only type with such a property
// here.
var secureProperties = map[string]bool{"AWS::IAM::User/Properties/LoginProfile/Password": true}

// dynamicReference is one in a text.
type dynamicReference struct {
	text, service, name string
}

// nextReference finds the first dynamic reference of a text, and returns what is before and behind it.
func nextReference(text string) (before string, reference dynamicReference, after string, found bool) {
	before, rest, found := strings.Cut(text, referenceStart)
	if !found {
		return text, reference, "", false
	}
	inner, after, found := strings.Cut(rest, referenceEnd)
	if !found {
		return text, reference, "", false
	}
	service, name, _ := strings.Cut(inner, ":")
	return before, dynamicReference{referenceStart + inner + referenceEnd, service, name}, after, true
}

// validateReference returns the error of a reference that can never be resolved.
func (r dynamicReference) validateReference() error {
	switch r.service {
	case "ssm", "ssm-secure":
		if !storedReference.MatchString(r.name) {
			return errorf("Incorrect format is used in the following SSM reference: [%s]", r.text)
		}
	case "secretsmanager":
		return errorf("Dynamic references to Secrets Manager are not supported by coracle: [%s]", r.text)
	}
	return nil
}

// isSSM reports whether the reference is to the Parameter Store. Others stay as they are.
func (r dynamicReference) isSSM() bool { return r.service == "ssm" || r.service == "ssm-secure" }

// resolveReferences replaces the dynamic references within the properties of a resource.
func (e *evaluator) resolveReferences(value any, at path) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			resolved, err := e.resolveReferences(v[key], append(at[:len(at):len(at)], key))
			if err != nil {
				return nil, err
			}
			object[key] = resolved
		}
		return object, nil
	case []any:
		list := make([]any, len(v))
		for i, inner := range v {
			resolved, err := e.resolveReferences(inner, at)
			if err != nil {
				return nil, err
			}
			list[i] = resolved
		}
		return list, nil
	case string:
		if strings.Contains(v, referenceStart) {
			return e.resolveText(v, at)
		}
	}
	return value, nil
}

// resolveText replaces the dynamic references in a text. A trial leaves it Unknown.
func (e *evaluator) resolveText(text string, at path) (any, error) {
	var b strings.Builder
	unknown := false
	for {
		before, reference, after, found := nextReference(text)
		b.WriteString(before)
		if !found {
			break
		}
		text = after
		if err := reference.validateReference(); err != nil {
			return nil, err
		}
		if !reference.isSSM() {
			b.WriteString(reference.text)
			continue
		}
		if e.references++; e.references > maxDynamic {
			return nil, errorf("Template error: the number of dynamic references is greater than maximum allowed, %d", maxDynamic)
		}
		if reference.service == "ssm-secure" {
			if place := strings.Join(at, "/"); !secureProperties[place] {
				return nil, errorf("SSM Secure reference is not supported in: [%s]", place)
			}
		}
		if e.trial || e.bound.inputs.Parameter == nil {
			unknown = true
			continue
		}
		value, err := e.bound.resolveReference(e.ctx, reference)
		if err != nil {
			return nil, err
		}
		if err := e.addSize(len(value)); err != nil {
			return nil, err
		}
		b.WriteString(value)
	}
	if unknown {
		return Unknown, nil
	}
	return b.String(), nil
}

// resolveReference returns the value of the SSM parameter that a reference names.
func (b *Bound) resolveReference(ctx context.Context, reference dynamicReference) (string, error) {
	secure := reference.service == "ssm-secure"
	stored, err := b.inputs.Parameter(ctx, reference.name, secure)
	name := versioned.ReplaceAllString(reference.name, "")
	switch {
	case errors.Is(err, ErrNotFound):
		return "", errorf("Unable to fetch parameters [%s] from parameter store for this account.", reference.name)
	case err != nil:
		return "", err
	case !secure && stored.Type == "SecureString":
		return "", errorf("Non-secure ssm prefix was used for secure parameter %s", name)
	case secure && stored.Type != "SecureString":
		return "", errorf("Secure ssm prefix was used for non-secure parameter %s", name)
	}
	return stored.Value, nil
}

// checkDefaultReferences refuses default values of parameters that refer to SSM parameters without their version.
func (p *parameter) checkDefaultReferences() error {
	if p.byDefault == nil {
		return nil
	}
	text := *p.byDefault
	for {
		_, reference, after, found := nextReference(text)
		if !found {
			return nil
		}
		if err := reference.validateReference(); err != nil {
			return err
		}
		if reference.isSSM() && !versioned.MatchString(reference.name) {
			return errorf("Template error: parameter %s should not contain ssm versionless resolver", p.name)
		}
		text = after
	}
}

// resolveParameter replaces dynamic references with a version in the value of a parameter, and counts them.
func (b *Bound) resolveParameter(ctx context.Context, text string, references *int) (string, error) {
	var resolved strings.Builder
	for {
		before, reference, after, found := nextReference(text)
		resolved.WriteString(before)
		if !found {
			return resolved.String(), nil
		}
		text = after
		if reference.service != "ssm" || reference.validateReference() != nil || !versioned.MatchString(reference.name) ||
			b.inputs.Parameter == nil {
			resolved.WriteString(reference.text)
			continue
		}
		if *references++; *references > maxDynamic {
			return "", errorf("Template error: the number of dynamic references is greater than maximum allowed, %d", maxDynamic)
		}
		value, err := b.resolveReference(ctx, reference)
		if err != nil {
			return "", err
		}
		if resolved.WriteString(value); resolved.Len() > 2*maxParameterSize {
			return "", errorf("Template error: dynamic references make the value of a parameter longer than %d bytes",
				2*maxParameterSize)
		}
	}
}
