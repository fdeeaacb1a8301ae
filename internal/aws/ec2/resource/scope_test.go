package resource

import (
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// A caller is an AWS service by the path of its role alone, which no user can make.
func TestCallersThatAreServices(t *testing.T) {
	t.Parallel()
	const account = "111122223333"
	for principal, want := range map[string]bool{
		"arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS": true,

		"arn:aws:iam::111122223333:user/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS":                          false,
		"arn:aws:iam::111122223333:user/role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS":                     false,
		"arn:aws:iam::111122223333:role/service-role/AWSServiceRoleForAmazonEKS":                                                false,
		"arn:aws:iam::111122223333:role/x/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS":                        false,
		"arn:aws:iam::111122223333:role/aws-service-roles":                                                                      false,
		"arn:aws:iam::444455556666:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS":                          false,
		"arn:aws-cn:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS":                       false,
		"arn:aws:iam::111122223333:user/arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForEKS": false,
		"arn:aws:iam::111122223333:root": false,
		"":                               false,
	} {
		sc := Scope{Account: account, Caller: wire.Caller{Account: account, PrincipalARN: principal}}
		if got := sc.IsService(); got != want {
			t.Errorf("%s is a service: %v", principal, got)
		}
	}
}
