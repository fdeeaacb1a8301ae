package sts_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

const allowAll = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

func trust(principal, action string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` + principal + `,"Action":` + action +
		`}]}`
}

func credentials(c *types.Credentials) aws.Credentials {
	return aws.Credentials{AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey,
		SessionToken: *c.SessionToken}
}

func whoAmI(t *testing.T, a *iamtest.AWS, with aws.Credentials) *sts.GetCallerIdentityOutput {
	t.Helper()
	return awstest.Must[*sts.GetCallerIdentityOutput](t)(a.STS(with).GetCallerIdentity(t.Context(),
		&sts.GetCallerIdentityInput{}))
}
