package iam_test

import (
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

// TestTagKeysAreWhatPoliciesTakeThemFor has a key that Unicode, without regard to case, takes for another, and policies
// do not: that of a policy stays.
func TestTagKeysAreWhatPoliciesTakeThemFor(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, client, user := t.Context(), a.IAM(a.Root), aws.String("u")
	const long = "\u017ftage" // it begins with a long s
	tag := func(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }
	awstest.Must[*iam.CreateUserOutput](t)(client.CreateUser(ctx, &iam.CreateUserInput{UserName: user,
		Tags: []types.Tag{tag("stage", "core"), tag(long, "x")}}))
	tags := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for _, tag := range awstest.Must[*iam.ListUserTagsOutput](t)(client.ListUserTags(ctx,
			&iam.ListUserTagsInput{UserName: user})).Tags {
			got[*tag.Key] = *tag.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("the tags are %v, want %v", got, want)
		}
	}
	tags(map[string]string{"stage": "core", long: "x"})
	awstest.Must[*iam.UntagUserOutput](t)(client.UntagUser(ctx, &iam.UntagUserInput{UserName: user,
		TagKeys: []string{long}}))
	tags(map[string]string{"stage": "core"})
	awstest.Must[*iam.TagUserOutput](t)(client.TagUser(ctx, &iam.TagUserInput{UserName: user,
		Tags: []types.Tag{tag(long, "y"), tag("STAGE", "other")}}))
	tags(map[string]string{"STAGE": "other", long: "y"})
	_, err := client.TagUser(ctx, &iam.TagUserInput{UserName: user,
		Tags: []types.Tag{tag("\u03c3", "1"), tag("\u03c2", "2")}}) // both are a sigma
	awstest.WantCode(t, err, "InvalidInput")
}
