package template

import (
	"context"
	"testing"
)

func TestBind(t *testing.T) {
	t.Parallel()
	tmpl, err := Parse(`
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::LanguageExtensions
Parameters:
  Names: {Type: CommaDelimitedList, Default: "a, b-c"}
Conditions:
  IsAB: !Equals [!Join ["", !Ref Names], ab-c]
Resources:
  VPC:
    Type: AWS::EC2::VPC
    Condition: IsAB
    DeletionPolicy: !If [IsAB, Retain, Delete]
    Properties: {CidrBlock: 10.0.0.0/16, Tags: [{Key: Name, Value: !Sub "${AWS::StackName}/VPC"}]}
  Fn::ForEach::Subnets:
    - Name
    - !Ref Names
    - Subnet&{Name}:
        Type: AWS::EC2::Subnet
        Properties: {VpcId: !Ref VPC, CidrBlock: !Select [0, !Cidr [!GetAtt VPC.CidrBlock, 4, 8]], AvailabilityZone: !Ref Name}
Outputs:
  V: {Value: !Ref VPC, Export: {Name: !Sub "${AWS::StackName}::V"}}
`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tmpl.Bind(context.Background(), Inputs{Pseudo: Pseudo{StackName: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range b.LogicalIDs() {
		p, err := b.Properties(context.Background(), id, nil)
		t.Log(id, b.Resource(id).DeletionPolicy, b.Dependencies(id), p, err)
	}
	t.Log(b.Outputs(context.Background(), nil))
	t.Log(tmpl.Capabilities())
}
