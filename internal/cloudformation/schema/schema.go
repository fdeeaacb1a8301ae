// Package schema describes the CloudFormation resource types that Coracle serves: their properties, what each of them
// must be, and what a change to it does to the resource.
package schema

// Type is a resource type.
type Type struct {
	Name string // "AWS::EC2::VPC"
}

// Of returns a served resource type by its name.
func Of(name string) (*Type, bool) { return nil, false }

// HasAttribute reports whether Fn::GetAtt may ask for an attribute.
func (t *Type) HasAttribute(name string) bool { return false }

// Coerce returns properties with the types that the schema wants.
func (t *Type) Coerce(properties map[string]any) map[string]any { return properties }
