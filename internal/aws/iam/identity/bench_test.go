package identity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// BenchmarkDecision measures a decision about a role with ten policies of 6 KB, of which the last allows, beside few
// other roles and beside many: 20 µs is the goal, whatever their number.
func BenchmarkDecision(b *testing.B) {
	for _, others := range []int{10, 5000} {
		b.Run(fmt.Sprintf("beside %d roles", others), func(b *testing.B) {
			a := iamtest.New(b)
			role := a.NewRole(b, "app", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":
				"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
			for i := range others {
				other := record.Role{Account: iamtest.Account, Name: fmt.Sprintf("other-%d", i), Path: "/",
					ID: fmt.Sprintf("AROA%017d", i), Trust: "{}"}
				key := record.RoleKey(other.Account, other.Name)
				if _, err := record.Roles(a.Store).Create(b.Context(), key, other); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 10 {
				var statements []string
				for j := 0; len(strings.Join(statements, ",")) < 5800; j++ {
					statements = append(statements, fmt.Sprintf(`{"Effect":"Allow","Action":["s3:GetObject","s3:ListBucket"],
						"Resource":"arn:aws:s3:::bucket-%d-%d/*"}`, i, j))
				}
				if i == 9 {
					statements = append(statements, `{"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"*"}`)
				}
				document := strings.ReplaceAll(`{"Version":"2012-10-17","Statement":[`+strings.Join(statements, ",")+`]}`, "\t", "")
				out, err := a.IAM(a.Root).CreatePolicy(b.Context(), &iam.CreatePolicyInput{
					PolicyName: aws.String(fmt.Sprint("p", i)), PolicyDocument: &document})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := a.IAM(a.Root).AttachRolePolicy(b.Context(), &iam.AttachRolePolicyInput{
					RoleName: aws.String("app"), PolicyArn: out.Policy.Arn}); err != nil {
					b.Fatal(err)
				}
			}
			found, err := a.Identity.RoleByARN(b.Context(), role)
			if err != nil {
				b.Fatal(err)
			}
			credentials, err := a.Identity.ServiceRoleCredentials(iamtest.Account, "app", "s").Retrieve(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			_, caller, err := a.Identity.Lookup(b.Context(), credentials.AccessKeyID, credentials.SessionToken)
			if err != nil {
				b.Fatal(err)
			}
			target := []wire.Target{{Action: "eks:DescribeCluster", Resource: "arn:aws:eks:us-east-1:111122223333:cluster/c"}}
			b.ResetTimer()
			for b.Loop() {
				if err := a.Identity.Authorize(context.Background(), caller, target); err != nil {
					b.Fatal(found.Name, err)
				}
			}
		})
	}
}
