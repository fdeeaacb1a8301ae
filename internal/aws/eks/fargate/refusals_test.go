package fargate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/record"
)

// bad returns a bad CreateFargateProfile: a good one with an edit.
func bad(edit func(*eks.CreateFargateProfileInput)) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		in := profile("c", "new")
		edit(in)
		_, err := c.CreateFargateProfile(ctx, in)
		return err
	}
}

func badName(name string) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.FargateProfileName = &name })
}

func badCluster(name string) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.ClusterName = &name })
}

func badRole(arn string) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.PodExecutionRoleArn = &arn })
}

func badSubnets(ids ...string) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.Subnets = ids })
}

func badSelectors(selectors ...types.FargateProfileSelector) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.Selectors = selectors })
}

func badNamespace(name string) ekstest.Call {
	return badSelectors(types.FargateProfileSelector{Namespace: &name})
}

func badLabels(labels map[string]string) ekstest.Call {
	return badSelectors(types.FargateProfileSelector{Namespace: aws.String("default"), Labels: labels})
}

func badTags(tags map[string]string) ekstest.Call {
	return bad(func(in *eks.CreateFargateProfileInput) { in.Tags = tags })
}

func deleteProfile(cluster, name string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DeleteFargateProfile(ctx, &eks.DeleteFargateProfileInput{ClusterName: &cluster,
			FargateProfileName: &name})
		return err
	}
}

func describeProfile(cluster, name string) ekstest.Call {
	return func(ctx context.Context, c *eks.Client) error {
		_, err := c.DescribeFargateProfile(ctx, &eks.DescribeFargateProfileInput{ClusterName: &cluster,
			FargateProfileName: &name})
		return err
	}
}

// putRole writes a role with a trust policy for a service.
func (w fixture) putRole(path, name, service, more string) string {
	w.T.Helper()
	r := record.Role{Account: ekstest.Account, Path: path, Name: name, Trust: `{"Version":"2012-10-17","Statement":[` +
		`{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"` + more + `}]}`}
	ekstest.Put(w.T, record.Roles(w.Store), record.RoleKey(ekstest.Account, name), r)
	return r.ARN()
}

// A bad request about Fargate profiles is answered with EKS's error, and changes nothing.
func TestFargateProfileRefusals(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const (
		pods      = "eks-fargate-pods.amazonaws.com"
		iam       = "arn:aws:iam::" + ekstest.Account + ":"
		parameter = "InvalidParameterException"
		invalid   = "InvalidRequestException"
		used      = "ResourceInUseException"
		missing   = "ResourceNotFoundException"
		denied    = "AccessDeniedException"
		misled    = "Misconfigured PodExecutionRole Trust Policy; Please add the " + pods + " Service Principal"
		letters   = "The Fargate profile name parameter contains invalid characters. It should begin with letter or digit " +
			"and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores."
	)
	source := func(condition, key, value string) string {
		return `,"Condition":{"` + condition + `":{"` + key + `":"` + value + `"}}`
	}
	of := "arn:aws:eks:" + ekstest.Region + ":" + ekstest.Account + ":fargateprofile/"
	elsewhere := w.putRole("/", "elsewhere", pods, source("ArnLike", "aws:SourceArn", of+"other/*"))
	cluster := w.putRole("/", "cluster", pods, source("ArnLike", "aws:SourceArn", ekstest.ClusterARN+"c"))
	stranger := w.putRole("/", "stranger", pods, source("StringEquals", "aws:SourceAccount", "444455556666"))
	service := w.putRole("/", "service", "eks-fargate.amazonaws.com", "")
	deep := w.putRole("/teams/web/", "deep", pods, "")
	w.putRole("/aws-service-role/eks-fargate.amazonaws.com/", "AWSServiceRoleForAmazonEKSForFargate",
		"eks-fargate.amazonaws.com", "")
	linked, _ := record.Roles(w.Store).Modify(t.Context(), record.RoleKey(ekstest.Account,
		"AWSServiceRoleForAmazonEKSForFargate"), func(r *record.Role) error {
		r.LinkedService = "eks-fargate.amazonaws.com"
		return nil
	})
	node := w.putRole("/", "both", pods, "")

	n := w.network()
	w.Create("c", subnets(n.private[0], n.public[1]))
	w.createProfile("c", "fp")
	ekstest.Put(t, record.Nodegroups(w.Store), record.NodegroupKey(ekstest.Account, ekstest.Region, "c", "ng"),
		record.Nodegroup{Account: ekstest.Account, Region: ekstest.Region, Cluster: "c", ClusterID: w.Row("c").ID,
			Name: "ng", NodeRoleARN: node})
	w.Create("public", subnets(n.public...))
	w.Create("elsewhere")
	if _, err := w.Client.CreateCluster(t.Context(), ekstest.Request("creating")); err != nil {
		t.Fatal(err)
	}
	w.Create("gone")
	if err := ekstest.DeleteCluster("gone")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	w.Create("updating")
	w.createProfile("updating", "fp")
	if err := ekstest.UpdateVersion("updating", "1.36")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	w.Create("busy")
	w.createProfile("busy", "well")
	if err := bad(func(in *eks.CreateFargateProfileInput) {
		in.ClusterName, in.FargateProfileName = aws.String("busy"), aws.String("coming")
	})(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}
	w.Create("leaving")
	w.createProfile("leaving", "well")
	w.createProfile("leaving", "going")
	if err := deleteProfile("leaving", "going")(t.Context(), w.Client); err != nil {
		t.Fatal(err)
	}

	selector := types.FargateProfileSelector{Namespace: aws.String("default")}
	many := func(n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint("k", i)] = "v"
		}
		return out
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	inUse := func(name string) ekstest.Call {
		return bad(func(in *eks.CreateFargateProfileInput) {
			in.FargateProfileName, in.Selectors = aws.String(name), []types.FargateProfileSelector{selector, selector}
		})
	}
	for _, r := range []struct {
		name          string
		do            ekstest.Call
		code, message string
	}{
		// Clusters.
		{"no such cluster", badCluster("nobody"), missing, "No cluster found for name: nobody."},
		{"a cluster that is being created", badCluster("creating"), invalid, "Cluster 'creating' is not in ACTIVE status"},
		{"a cluster that is being deleted", badCluster("gone"), invalid, "Cluster 'gone' is not in ACTIVE status"},
		{"a cluster that is being updated", badCluster("updating"), invalid,
			"Cluster 'updating' is not in ACTIVE status"},

		// Names.
		{"an empty name", badName(""), parameter, letters},
		{"a name in use", inUse("fp"), used, "A Fargate Profile already exists with this name in this cluster."},
		{"a name with a dot", badName("a.b"), parameter, letters},
		{"a name with a blank", badName("a b"), parameter, letters},
		{"a name with a slash", badName("a/b"), parameter, letters},
		{"a name with a star", badName("a*"), parameter, letters},
		{"a name that begins with a hyphen", badName("-a"), parameter, letters},
		{"a name that begins with an underscore", badName("_a"), parameter, letters},
		{"a name with a letter that no label may have", badName("é"), parameter,
			"…is the value of a label of the profile's pods, which é can't be: "},
		{"a name that ends in a hyphen", badName("a-"), parameter, "…is the value of a label of the profile's pods"},
		{"a name that ends in an underscore", badName("a_"), parameter, "…is the value of a label of the profile's pods"},
		{"a reserved name", badName("eks-fp"), parameter,
			"The fargate profile name starts with the reserved prefix: 'eks-'."},
		{"nothing but the reserved prefix", badName("eks-"), parameter,
			"The fargate profile name starts with the reserved prefix: 'eks-'."},
		{"a name of 101 characters", badName(long(101)), parameter,
			"The Fargate profile name parameter should not be greater than 100 characters."},
		{"a name of 64 characters", badName(long(64)), parameter,
			"…is the value of a label of the profile's pods"},

		// Selectors.
		{"no selectors", badSelectors(), parameter, "Fargate Profile requires at least one selector."},
		{"six selectors", badSelectors(selector, selector, selector, selector, selector, selector), parameter,
			"Request contains more than 5 Selectors"},
		{"a selector of nothing", badSelectors(types.FargateProfileSelector{}), parameter,
			"Fargate Profile must have at least one selector with at least one namespace value."},
		{"a selector without a namespace", badSelectors(selector, types.FargateProfileSelector{Labels: many(1)}),
			parameter, "Fargate Profile must have at least one selector with at least one namespace value."},
		{"an empty namespace", badNamespace(""), parameter,
			"Fargate Profile must have at least one selector with at least one namespace value."},
		{"a namespace with a capital", badNamespace("Default"), parameter,
			`…The namespace provided is invalid. Namespace "Default": `},
		{"a namespace with a dot", badNamespace("a.b"), parameter, `…The namespace provided is invalid. Namespace "a.b": `},
		{"a namespace with another wildcard", badNamespace("a[bc]"), parameter,
			`…The namespace provided is invalid. Namespace "a[bc]": `},
		{"a namespace that ends in a hyphen", badNamespace("a-"), parameter,
			`…The namespace provided is invalid. Namespace "a-": `},
		{"a namespace of 64 characters", badNamespace(long(64)), parameter, "…no more than 63"},
		{"six labels", badLabels(many(6)), parameter, "Request contains Selector with more than 5 Label pairs"},
		{"an empty label key", badLabels(map[string]string{"": "a"}), parameter,
			`…Selector label provided is invalid. Key "": `},
		{"a label key with a blank", badLabels(map[string]string{"a b": "c"}), parameter,
			`…Selector label provided is invalid. Key "a b": `},
		{"a label key with two slashes", badLabels(map[string]string{"a/b/c": "d"}), parameter,
			`…Selector label provided is invalid. Key "a/b/c": `},
		{"a label key with a bad prefix", badLabels(map[string]string{"A_/b": "c"}), parameter,
			`…Selector label provided is invalid. Key "A_/b": `},
		{"a label key of 64 characters", badLabels(map[string]string{long(64): "a"}), parameter, "…no more than 63"},
		{"a label value with a blank", badLabels(map[string]string{"a": "b c"}), parameter,
			`…Selector label provided is invalid. Value "b c" of a: `},
		{"a label value with a slash", badLabels(map[string]string{"a": "b/c"}), parameter,
			`…Selector label provided is invalid. Value "b/c" of a: `},
		{"a label value of 64 characters", badLabels(map[string]string{"a": long(64)}), parameter, "…no more than 63"},

		// Pod execution roles.
		{"an empty role", badRole(""), parameter, "podExecutionRoleArn  is not the ARN of an IAM role"},
		{"the name of a role", badRole("fargate"), parameter, "podExecutionRoleArn fargate is not the ARN of an IAM role"},
		{"the ARN of a user", badRole(iam + "user/alice"), parameter, "…is not the ARN of an IAM role"},
		{"the ARN of the account", badRole(iam + "root"), parameter, "…is not the ARN of an IAM role"},
		{"the ARN of an instance profile", badRole(iam + "instance-profile/node"), parameter,
			"…is not the ARN of an IAM role"},
		{"no such role", badRole(iam + "role/nobody"), parameter,
			"…The role with name nobody cannot be found. (Service: Iam, Status Code: 404"},
		{"a role of another account", badRole("arn:aws:iam::444455556666:role/fargate"), denied,
			"Cross-account pass role is not allowed."},
		{"a service-linked role", badRole(linked.Value.ARN()), parameter, "…is a service-linked role"},
		{"a role with a path", badRole(deep), parameter, "…can't have a path other than /"},
		{"a role of nodes", badRole(ekstest.NodeRole), parameter, misled},
		{"a role that trusts the wrong service of Fargate", badRole(service), parameter, misled},
		{"a role for another cluster", badRole(elsewhere), parameter, misled},
		{"a role for the cluster instead of its profiles", badRole(cluster), parameter, misled},
		{"a role for another account", badRole(stranger), parameter, misled},
		{"the role of a node group", badRole(node), parameter, "podExecutionRoleArn " + node + " is already in use by " +
			"nodegroup ng: a Fargate profile must have a different IAM role than Amazon EC2 node groups"},

		// Subnets.
		{"no such subnet", badSubnets("subnet-x"), parameter,
			"…The subnet ID 'subnet-x' does not exist (Service: Ec2, Status Code: 400"},
		{"a public subnet", badSubnets(n.public[1]), parameter,
			"Subnet " + n.public[1] + " provided in Fargate Profile is not a private subnet"},
		{"a public subnet beside a private one", badSubnets(n.private[1], n.public[0]), parameter,
			"Subnet " + n.public[0] + " provided in Fargate Profile is not a private subnet"},
		{"a cluster without private subnets", badCluster("public"), parameter,
			"…no subnet of cluster public is private"},
		{"subnets of another VPC", badSubnets(n.private[0], "subnet-2a", "subnet-2b"), parameter,
			"…Subnet(s) [subnet-2a, subnet-2b] are not in the VPC of the cluster, vpc-"},
		{"a subnet twice", badSubnets(n.private[0], n.private[0]), parameter,
			"Subnet " + n.private[0] + " is specified more than once"},

		// Tags.
		{"51 tags", badTags(many(51)), parameter,
			"…at 'tags' failed to satisfy constraint: Member must have length less than or equal to 50"},
		{"a reserved tag", badTags(map[string]string{"aws:a": "b"}), parameter, "…reserved for system use"},
		{"a tag value of 257 characters", badTags(map[string]string{"a": long(257)}), parameter, "…256"},

		// The wrong moment, the wrong profile.
		{"create while another is created", badCluster("busy"), used, "Cannot create Fargate Profile new because cluster " +
			"busy currently has Fargate profile coming in status CREATING"},
		{"create while another is deleted", badCluster("leaving"), used, "Cannot create Fargate Profile new because " +
			"cluster leaving currently has Fargate profile going in status DELETING"},
		{"delete while another is deleted", deleteProfile("leaving", "well"), used, "Cannot Delete Fargate Profile well " +
			"because cluster leaving currently has Fargate profile going in status DELETING"},
		{"delete while the cluster is updated", deleteProfile("updating", "fp"), used,
			"Cannot Delete Fargate Profile fp because cluster updating currently has an update in progress"},
		{"delete no profile", deleteProfile("c", "nobody"), missing, "No Fargate Profile found with name: nobody."},
		{"delete a profile of no cluster", deleteProfile("nobody", "fp"), missing, "No cluster found for name: nobody."},
		{"describe no profile", describeProfile("c", "nobody"), missing, "No Fargate Profile found with name: nobody."},
		{"describe a profile of another cluster", describeProfile("elsewhere", "fp"), missing,
			"No Fargate Profile found with name: fp."},
		{"describe a profile of no cluster", describeProfile("nobody", "fp"), missing,
			"No cluster found for name: nobody."},
		{"list the profiles of no cluster", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: aws.String("nobody")})
			return err
		}, missing, "No cluster found for name: nobody."},
		{"list from nowhere", func(ctx context.Context, c *eks.Client) error {
			_, err := c.ListFargateProfiles(ctx, &eks.ListFargateProfilesInput{ClusterName: aws.String("c"),
				NextToken: aws.String("nowhere")})
			return err
		}, parameter, "…"},
		{"delete the cluster", ekstest.DeleteCluster("busy"), used, "Cluster has fargate profiles attached"},
	} {
		w.Refuses(r.name, r.do, r.code, r.message)
	}
}
