package iam_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	coracleiam "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

func TestServiceLinkedRoles(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c, p := t.Context(), a.IAM(a.Root), aws.String
	role := awstest.Must[*iam.CreateServiceLinkedRoleOutput](t)(c.CreateServiceLinkedRole(ctx,
		&iam.CreateServiceLinkedRoleInput{AWSServiceName: p("eks.amazonaws.com")})).Role
	if *role.Arn != "arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS" {
		t.Errorf("created %s", *role.Arn)
	}
	// The service itself finds it there, and acts under it within its policy.
	if err := coracleiam.NewServiceLinkedRoles(a.Store, nil).Ensure(ctx, iamtest.Account,
		"eks.amazonaws.com"); err != nil {
		t.Error(err)
	}
	creds := awstest.Must[aws.Credentials](t)(
		a.Identity.ServiceRoleCredentials(iamtest.Account, "AWSServiceRoleForAmazonEKS",
			"EKS").Retrieve(ctx),
	)
	who := awstest.Must[*sts.GetCallerIdentityOutput](t)(
		a.STS(creds).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}),
	)
	if *who.Arn != "arn:aws:sts::111122223333:assumed-role/AWSServiceRoleForAmazonEKS/EKS" ||
		*who.UserId != *role.RoleId+":EKS" {
		t.Errorf("EKS is %s %s", *who.Arn, *who.UserId)
	}
	if _, err := a.IAM(creds).CreateUser(ctx,
		&iam.CreateUserInput{UserName: p("x")}); awstest.Code(err) != "AccessDenied" {
		t.Errorf("EKS makes users: %v", err)
	}
	awstest.Must[*iam.ListAttachedRolePoliciesOutput](t)(a.IAM(creds).ListAttachedRolePolicies(ctx,
		&iam.ListAttachedRolePoliciesInput{RoleName: role.RoleName}))

	// Its description can be changed, and nothing else.
	awstest.Must[*iam.UpdateRoleOutput](t)(c.UpdateRole(ctx,
		&iam.UpdateRoleInput{RoleName: role.RoleName, Description: p("one")}))
	described := awstest.Must[*iam.UpdateRoleDescriptionOutput](t)(c.UpdateRoleDescription(ctx,
		&iam.UpdateRoleDescriptionInput{RoleName: role.RoleName, Description: p("two")}))
	if got := aws.ToString(described.Role.Description); got != "two" {
		t.Errorf("the description is %q", got)
	}
	_, err := c.UpdateRole(ctx, &iam.UpdateRoleInput{RoleName: role.RoleName, MaxSessionDuration: aws.Int32(7200)})
	awstest.WantCode(t, err, "UnmodifiableEntity")

	// It is needed as long as there is a cluster.
	clusters := record.Clusters(a.Store)
	row := awstest.Must[store.Row[record.Cluster]](t)(clusters.Create(ctx, record.ClusterKey(iamtest.Account, "us-east-1",
		"ironman-2022"), record.Cluster{Account: iamtest.Account, Region: "us-east-1", Name: "ironman-2022"}))
	deletion := awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
		&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
	status := awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
		&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
	if status.Status != types.DeletionTaskStatusTypeFailed ||
		status.Reason.RoleUsageList[0].Resources[0] != "arn:aws:eks:us-east-1:111122223333:cluster/ironman-2022" {
		t.Errorf("deletion beside a cluster: %s %+v", status.Status, status.Reason)
	}
	if err := clusters.Delete(ctx, row); err != nil {
		t.Fatal(err)
	}
	deletion = awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
		&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
	status = awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
		&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
	if status.Status != types.DeletionTaskStatusTypeSucceeded {
		t.Errorf("deletion: %s", status.Status)
	}
	if _, err := a.STS(creds).GetCallerIdentity(ctx,
		&sts.GetCallerIdentityInput{}); awstest.Code(err) != "InvalidClientTokenId" {
		t.Errorf("a session of the deleted role: %v", err)
	}
}

// A service-linked role stays as long as something of its service needs it.
func TestServiceLinkedRolesInUse(t *testing.T) {
	t.Parallel()
	a := iamtest.New(t)
	ctx, c := t.Context(), a.IAM(a.Root)
	group := record.Nodegroup{Account: iamtest.Account, Region: "us-east-1", Cluster: "c", Name: "ng", ID: "1-2-3"}
	awstest.Must[store.Row[record.Nodegroup]](t)(record.Nodegroups(a.Store).Create(ctx, group.Key(), group))
	scaling := record.AutoScalingGroup{
		Account: iamtest.Account, Region: "us-east-1", Name: "asg", ID: "4-5-6",
		ServiceLinkedRoleARN: "arn:aws:iam::" + iamtest.Account +
			":role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
	}
	awstest.Must[store.Row[record.AutoScalingGroup]](t)(
		record.AutoScalingGroups(a.Store).Create(ctx, scaling.Key(), scaling),
	)
	for _, x := range []struct {
		service string
		suffix  *string
		inUse   []string
	}{
		{"eks-nodegroup.amazonaws.com", nil, []string{"arn:aws:eks:us-east-1:111122223333:nodegroup/c/ng/1-2-3"}},
		{"autoscaling.amazonaws.com", nil,
			[]string{"arn:aws:autoscaling:us-east-1:111122223333:autoScalingGroup:4-5-6:autoScalingGroupName/asg"}},
		{"autoscaling.amazonaws.com", aws.String("other"), nil},
		{"eks.amazonaws.com", nil, nil},
	} {
		role := awstest.Must[*iam.CreateServiceLinkedRoleOutput](t)(c.CreateServiceLinkedRole(ctx,
			&iam.CreateServiceLinkedRoleInput{AWSServiceName: &x.service, CustomSuffix: x.suffix})).Role
		deletion := awstest.Must[*iam.DeleteServiceLinkedRoleOutput](t)(c.DeleteServiceLinkedRole(ctx,
			&iam.DeleteServiceLinkedRoleInput{RoleName: role.RoleName}))
		status := awstest.Must[*iam.GetServiceLinkedRoleDeletionStatusOutput](t)(c.GetServiceLinkedRoleDeletionStatus(ctx,
			&iam.GetServiceLinkedRoleDeletionStatusInput{DeletionTaskId: deletion.DeletionTaskId}))
		var inUse []string
		if status.Reason != nil {
			inUse = status.Reason.RoleUsageList[0].Resources
		}
		_, err := c.GetRole(ctx, &iam.GetRoleInput{RoleName: role.RoleName})
		if (status.Status == types.DeletionTaskStatusTypeFailed) != (x.inUse != nil) ||
			(err == nil) != (x.inUse != nil) || !slices.Equal(inUse, x.inUse) {
			t.Errorf("%s: deletion %s because of %v; role: %v", *role.RoleName, status.Status, inUse, err)
		}
	}
}
