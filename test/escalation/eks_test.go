package escalation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

const (
	devARN     = "arn:aws:eks:" + region + ":" + account + ":cluster/dev"
	accessView = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
	accessAll  = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
)

// entered creates a cluster with an access entry for mallory, which grants nothing.
func entered(w *fixture) {
	w.cluster()
	w.do(
		w.root.eks.CreateAccessEntry(
			w.t.Context(),
			&eks.CreateAccessEntryInput{ClusterName: p("dev"), PrincipalArn: p(mallory)},
		),
	)
}

// createsEntry creates an access entry for mallory, as mallory.
func createsEntry(edit func(*eks.CreateAccessEntryInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &eks.CreateAccessEntryInput{ClusterName: p("dev"), PrincipalArn: p(mallory)}
		edit(in)
		return failed(w.me.eks.CreateAccessEntry(w.t.Context(), in))
	}
}

// associatesPolicy makes mallory the administrator of the cluster, as mallory.
func associatesPolicy(scope *ekstypes.AccessScope) func(*fixture) error {
	return func(w *fixture) error {
		return failed(w.me.eks.AssociateAccessPolicy(w.t.Context(), &eks.AssociateAccessPolicyInput{
			ClusterName: p("dev"), PrincipalArn: p(mallory), PolicyArn: p(accessAll), AccessScope: scope,
		}))
	}
}

// failedAddon creates an add-on with a tag, whose creation fails.
func failedAddon(w *fixture) {
	w.cluster()
	w.do(w.root.eks.CreateAddon(w.t.Context(), &eks.CreateAddonInput{ClusterName: p("dev"), AddonName: p("vpc-cni"),
		Tags: map[string]string{"team": "crew"}}))
	row, err := record.Addons(w.Store).Get(w.t.Context(), record.AddonKey(account, region, "dev", "vpc-cni"))
	w.do(nil, err)
	w.do(record.AddonStates(w.Store).Put(w.t.Context(), row.Key, record.AddonState{AddonID: row.Value.ID,
		Change: row.Value.Change, Failed: true, Issues: []ekstypes.AddonIssue{{
			Code: ekstypes.AddonIssueCodeConfigurationConflict}}}))
}

// createsAddonAgain creates that add-on again, as mallory.
func createsAddonAgain(tags map[string]string) func(*fixture) error {
	return func(w *fixture) error {
		return failed(w.me.eks.CreateAddon(w.t.Context(), &eks.CreateAddonInput{ClusterName: p("dev"),
			AddonName: p("vpc-cni"), Tags: tags}))
	}
}

var wholeCluster = &ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster}

// updatesEntry changes mallory's access entry, as mallory.
func updatesEntry(edit func(*eks.UpdateAccessEntryInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &eks.UpdateAccessEntryInput{ClusterName: p("dev"), PrincipalArn: p(mallory)}
		edit(in)
		return failed(w.me.eks.UpdateAccessEntry(w.t.Context(), in))
	}
}

// createsNodes creates a node group with the role that may do everything, as mallory.
func createsNodes(edit func(*fixture, *eks.CreateNodegroupInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &eks.CreateNodegroupInput{
			ClusterName: p("dev"), NodegroupName: p("nodes"), NodeRole: p(adminARN), Subnets: []string{w.subnetA},
		}
		edit(w, in)
		return failed(w.me.eks.CreateNodegroup(w.t.Context(), in))
	}
}

func asItIs(*fixture, *eks.CreateNodegroupInput) {}

// templated changes a node group to launch from the first version of the launch template, without an image of its own.
func templated(w *fixture, in *eks.CreateNodegroupInput) {
	in.NodeRole, in.LaunchTemplate = p(prefix+"role/node"), &ekstypes.LaunchTemplateSpecification{
		Id:      &w.id,
		Version: p("1"),
	}
}

// createsAddon creates the add-on vpc-cni, as mallory.
func createsAddon(edit func(*eks.CreateAddonInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := &eks.CreateAddonInput{ClusterName: p("dev"), AddonName: p("vpc-cni")}
		edit(in)
		return failed(w.me.eks.CreateAddon(w.t.Context(), in))
	}
}

func withServiceAccountRole(in *eks.CreateAddonInput) { in.ServiceAccountRoleArn = p(adminARN) }

func withPodIdentity(in *eks.CreateAddonInput) {
	in.PodIdentityAssociations = []ekstypes.AddonPodIdentityAssociations{
		{ServiceAccount: p("aws-node"), RoleArn: p(adminARN)},
	}
}

// addon creates a cluster with the add-on vpc-cni, which has no role.
func addon(w *fixture) {
	w.cluster()
	w.do(w.root.eks.CreateAddon(w.t.Context(), &eks.CreateAddonInput{ClusterName: p("dev"), AddonName: p("vpc-cni")}))
	w.applies("vpc-cni")
}

// createsCluster creates a cluster, as mallory.
func createsCluster(edit func(*eks.CreateClusterInput)) func(*fixture) error {
	return func(w *fixture) error {
		in := w.clusterNamed("mine")
		edit(in)
		return failed(w.me.eks.CreateCluster(w.t.Context(), in))
	}
}

// passCluster lets mallory pass the role of clusters.
func passCluster() statement { return allow("iam:PassRole").on(prefix + "role/cluster") }

func passedTo(s statement, service string) statement {
	return s.when("StringEquals", "iam:PassedToService", service)
}

var eksPaths = []path{
	{
		name: "eks: CreateAddon again, without its tags and UntagResource", given: failedAddon,
		needs: []statement{allow("eks:CreateAddon")}, stops: []statement{allow("eks:UntagResource")},
		try: createsAddonAgain(nil),
	},
	{
		name: "eks: CreateAddon again with a tag that is denied for what has its tag", given: failedAddon,
		needs: []statement{allow("eks:CreateAddon"), allow("eks:TagResource").when("StringNotEquals",
			"aws:ResourceTag/team", "crew")},
		stops: []statement{allow("eks:TagResource")},
		try:   createsAddonAgain(map[string]string{"team": "crew", "stage": "x"}),
	},
	{
		name: "eks: CreateAddon again with the tag that it has, which is denied for what has it", given: failedAddon,
		needs: []statement{allow("eks:CreateAddon"), allow("eks:TagResource").when("StringNotEquals",
			"aws:ResourceTag/team", "crew")},
		stops: []statement{allow("eks:TagResource")},
		try:   createsAddonAgain(map[string]string{"team": "crew"}),
	},
	{
		name: "eks: CreateAccessEntry with tags, without TagResource", given: func(w *fixture) { w.cluster() },
		needs: []statement{allow("eks:CreateAccessEntry")}, stops: []statement{allow("eks:TagResource")},
		try: createsEntry(func(in *eks.CreateAccessEntryInput) { in.Tags = map[string]string{"team": "crew"} }),
	},
	{
		name: "eks: CreateAccessEntry for oneself", given: (*fixture).cluster,
		needs: []statement{allow("eks:AssociateAccessPolicy", "eks:Describe*")},
		stops: []statement{
			allow("eks:CreateAccessEntry").on(devARN),
		}, try: createsEntry(func(*eks.CreateAccessEntryInput) {}),
	},
	{
		name: "eks: CreateAccessEntry for a principal beside the allowed one", given: (*fixture).cluster,
		needs: []statement{allow("eks:CreateAccessEntry").when("ArnEquals", "eks:principalArn", bossARN)},
		stops: []statement{allow("eks:CreateAccessEntry").when("ArnEquals", "eks:principalArn", mallory)},
		try:   createsEntry(func(*eks.CreateAccessEntryInput) {}),
	},
	{
		name: "eks: CreateAccessEntry with groups that are not allowed", given: (*fixture).cluster,
		needs: []statement{
			allow("eks:CreateAccessEntry").when("ForAllValues:StringEquals", "eks:kubernetesGroups", "viewers"),
		},
		stops: []statement{
			allow("eks:CreateAccessEntry").when("ForAllValues:StringEquals", "eks:kubernetesGroups", "viewers", "admins"),
		},
		try: createsEntry(
			func(in *eks.CreateAccessEntryInput) { in.KubernetesGroups = []string{"viewers", "admins"} },
		),
	},
	{
		name: "eks: CreateAccessEntry with a user name that is not allowed", given: (*fixture).cluster,
		needs:   []statement{allow("eks:CreateAccessEntry")},
		hinders: []statement{deny("eks:CreateAccessEntry").when("StringLike", "eks:username", "boss*")},
		try:     createsEntry(func(in *eks.CreateAccessEntryInput) { in.Username = p("boss") }),
	},
	{
		name: "eks: CreateAccessEntry of a type that is not allowed", given: (*fixture).cluster,
		needs: []statement{allow("eks:CreateAccessEntry").when("StringEquals", "eks:accessEntryType", "STANDARD")},
		stops: []statement{allow("eks:CreateAccessEntry").when("StringEquals", "eks:accessEntryType", "EC2_LINUX")},
		try: createsEntry(func(in *eks.CreateAccessEntryInput) {
			in.PrincipalArn, in.Type = p(weakARN), p("EC2_LINUX")
		}),
	},
	{
		name: "eks: AssociateAccessPolicy with one's own entry", given: entered,
		needs: []statement{allow("eks:CreateAccessEntry", "eks:UpdateAccessEntry")},
		stops: []statement{allow("eks:AssociateAccessPolicy")}, try: associatesPolicy(wholeCluster),
	},
	{
		name: "eks: AssociateAccessPolicy of a policy beside the allowed one", given: entered,
		needs: []statement{allow("eks:AssociateAccessPolicy").when("ArnEquals", "eks:policyArn", accessView)},
		stops: []statement{
			allow("eks:AssociateAccessPolicy").when("ArnEquals", "eks:policyArn", accessAll),
		}, try: associatesPolicy(wholeCluster),
	},
	{
		name: "eks: AssociateAccessPolicy for the whole cluster", given: entered,
		needs: []statement{allow("eks:AssociateAccessPolicy").when("StringEquals", "eks:accessScope", "namespace")},
		stops: []statement{
			allow("eks:AssociateAccessPolicy").when("StringEquals", "eks:accessScope", "cluster"),
		}, try: associatesPolicy(wholeCluster),
	},
	{
		name: "eks: AssociateAccessPolicy for a namespace beside the allowed one", given: entered,
		needs: []statement{
			allow("eks:AssociateAccessPolicy").when("ForAllValues:StringEquals", "eks:namespaces", "apps"),
		},
		stops: []statement{
			allow("eks:AssociateAccessPolicy").when("ForAllValues:StringEquals", "eks:namespaces", "apps", "kube-system"),
		},
		try: associatesPolicy(
			&ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{"apps", "kube-system"}},
		),
	},
	{
		name: "eks: UpdateAccessEntry of one's own groups", given: entered,
		needs: []statement{allow("eks:CreateAccessEntry")},
		stops: []statement{allow("eks:UpdateAccessEntry")},
		try:   updatesEntry(func(in *eks.UpdateAccessEntryInput) { in.KubernetesGroups = []string{"admins"} }),
	},
	{
		name: "eks: UpdateAccessEntry with groups that are not allowed", given: entered,
		needs: []statement{allow("eks:UpdateAccessEntry")},
		hinders: []statement{
			deny("eks:UpdateAccessEntry").when("ForAnyValue:StringEquals", "eks:kubernetesGroups", "admins"),
		},
		try: updatesEntry(
			func(in *eks.UpdateAccessEntryInput) { in.KubernetesGroups = []string{"viewers", "admins"} },
		),
	},
	{
		name: "eks: UpdateAccessEntry to the user name of another", given: entered,
		needs: []statement{allow("eks:UpdateAccessEntry").when("StringEquals", "eks:username", "mallory")},
		stops: []statement{allow("eks:UpdateAccessEntry").when("StringEquals", "eks:username", "boss")},
		try:   updatesEntry(func(in *eks.UpdateAccessEntryInput) { in.Username = p("boss") }),
	},
	{
		name: "eks: DeleteAccessEntry of another, to make room", given: entered,
		needs: []statement{allow("eks:CreateAccessEntry")},
		stops: []statement{allow("eks:DeleteAccessEntry")},
		try: func(w *fixture) error {
			return failed(
				w.me.eks.DeleteAccessEntry(
					w.t.Context(),
					&eks.DeleteAccessEntryInput{ClusterName: p("dev"), PrincipalArn: p(mallory)},
				),
			)
		},
	},
	{
		name: "eks: CreateNodegroup without PassRole", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole")},
		stops: []statement{passAdmin()}, try: createsNodes(asItIs),
	},
	{
		name: "eks: CreateNodegroup with PassRole to another service", given: (*fixture).cluster,
		needs: []statement{
			allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole"),
			passedTo(passAdmin(), "ec2.amazonaws.com"),
		},
		stops: []statement{passedTo(passAdmin(), "eks.amazonaws.com")}, try: createsNodes(asItIs),
	},
	{
		name: "eks: CreateNodegroup with PassRole for another cluster", given: (*fixture).cluster,
		needs: []statement{
			allow(
				"eks:*", "ec2:*", "iam:CreateServiceLinkedRole",
			), passAdmin().when("ArnLike", "iam:AssociatedResourceArn", "arn:aws:eks:*:*:nodegroup/other/*"),
		},
		stops: []statement{
			passAdmin().when("ArnLike", "iam:AssociatedResourceArn", "arn:aws:eks:*:*:nodegroup/dev/*"),
		}, try: createsNodes(asItIs),
	},
	{
		name:  "eks: CreateNodegroup of a role that is named under an allowed path",
		given: both((*fixture).cluster, becomes(prefix+"role/team/admin")),
		needs: []statement{allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole")},
		stops: []statement{passAdmin()}, open: becomes(adminARN),
		try: createsNodes(func(w *fixture, in *eks.CreateNodegroupInput) { in.NodeRole = &w.id }),
	},
	{
		name: "eks: CreateNodegroup with PassRole alone", given: (*fixture).cluster,
		needs: []statement{allow("iam:*", "ec2:*")},
		stops: []statement{allow("eks:CreateNodegroup").on(devARN)}, try: createsNodes(asItIs),
	},
	{
		name: "eks: CreateNodegroup of a launch template, without RunInstances", given: nodeTemplate,
		needs: []statement{allow("eks:*", "iam:*", "ec2:Describe*", "ec2:CreateTags")},
		stops: []statement{allow("ec2:RunInstances")}, try: createsNodes(templated),
	},
	{
		name: "eks: CreateNodegroup of a launch template, in a subnet of others beside one's own", given: nodeTemplate,
		needs: []statement{
			allow("eks:*", "iam:*", "ec2:Describe*", "ec2:CreateTags"), allow("ec2:RunInstances").except(ec2ARN("subnet/*")),
			allow("ec2:RunInstances").on(ec2ARN("subnet/*")).when("StringEquals", "ec2:AvailabilityZone", region+"a"),
		},
		stops: []statement{allow("ec2:RunInstances").on(ec2ARN("subnet/*"))},
		try: createsNodes(func(w *fixture, in *eks.CreateNodegroupInput) {
			templated(w, in)
			in.Subnets = []string{w.subnetA, w.subnetB}
		}),
	},
	{
		name: "eks: CreateNodegroup of a launch template, of a type that may not be launched", given: nodeTemplate,
		needs: append(onlyType("t3.large"), allow("eks:*", "iam:*", "ec2:CreateTags")), stops: onlyType("m5.large"),
		try: createsNodes(func(w *fixture, in *eks.CreateNodegroupInput) {
			templated(w, in)
			in.InstanceTypes = []string{"t3.large", "m5.large"}
		}),
	},
	{
		name: "eks: UpdateNodegroupVersion to another version of the launch template, without RunInstances",
		given: func(w *fixture) {
			nodeTemplate(w)
			in := &eks.CreateNodegroupInput{
				ClusterName:   p("dev"),
				NodegroupName: p("nodes"),
				Subnets:       []string{w.subnetA},
			}
			templated(w, in)
			w.do(w.root.eks.CreateNodegroup(w.t.Context(), in))
			w.runs("nodes")
		},
		needs: []statement{
			allow("eks:*", "iam:*", "ec2:Describe*", "ec2:CreateTags"),
		}, stops: []statement{allow("ec2:RunInstances")},
		try: func(w *fixture) error {
			return failed(w.me.eks.UpdateNodegroupVersion(w.t.Context(), &eks.UpdateNodegroupVersionInput{
				ClusterName: p("dev"), NodegroupName: p("nodes"), LaunchTemplate: &ekstypes.LaunchTemplateSpecification{Id: &w.id,
					Version: p("2")},
			}))
		},
	},
	{
		name: "eks: CreateAddon with a service account's role, without PassRole", given: (*fixture).cluster,
		needs: []statement{allow("eks:*")},
		stops: []statement{passAdmin()}, try: createsAddon(withServiceAccountRole),
	},
	{
		name: "eks: CreateAddon with PassRole to another service", given: (*fixture).cluster,
		needs: []statement{allow("eks:*"), passedTo(passAdmin(), "pods.eks.amazonaws.com")},
		stops: []statement{passedTo(passAdmin(), "eks.amazonaws.com")}, try: createsAddon(withServiceAccountRole),
	},
	{
		name: "eks: UpdateAddon with a service account's role, without PassRole", given: addon,
		needs: []statement{allow("eks:*")},
		stops: []statement{passAdmin()},
		try: func(w *fixture) error {
			return failed(w.me.eks.UpdateAddon(w.t.Context(), &eks.UpdateAddonInput{
				ClusterName: p("dev"), AddonName: p("vpc-cni"), ServiceAccountRoleArn: p(adminARN),
			}))
		},
	},
	{
		name: "eks: CreateAddon with a pod identity, without PassRole", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "iam:GetRole")},
		stops: []statement{passAdmin()}, try: createsAddon(withPodIdentity),
	},
	{
		name: "eks: CreateAddon with a pod identity, with PassRole to EKS", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "iam:GetRole"), passedTo(passAdmin(), "eks.amazonaws.com")},
		stops: []statement{passedTo(passAdmin(), "pods.eks.amazonaws.com")}, try: createsAddon(withPodIdentity),
	},
	{
		name: "eks: CreateAddon with a pod identity, without CreatePodIdentityAssociation", given: (*fixture).cluster,
		needs: []statement{allow("eks:CreateAddon", "eks:Describe*", "iam:GetRole", "iam:PassRole")},
		stops: []statement{allow("eks:CreatePodIdentityAssociation").on(devARN)}, try: createsAddon(withPodIdentity),
	},
	{
		name: "eks: CreateAddon with a pod identity, without GetRole", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "iam:PassRole")},
		stops: []statement{allow("iam:GetRole").on(adminARN)}, try: createsAddon(withPodIdentity),
	},
	{
		name: "eks: UpdateAddon with a pod identity, without PassRole", given: addon,
		needs: []statement{allow("eks:*", "iam:GetRole")},
		stops: []statement{passAdmin()},
		try: func(w *fixture) error {
			return failed(w.me.eks.UpdateAddon(w.t.Context(), &eks.UpdateAddonInput{
				ClusterName: p("dev"), AddonName: p("vpc-cni"),
				PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{
					{ServiceAccount: p("aws-node"), RoleArn: p(adminARN)},
				},
			}))
		},
	},
	{
		name: "eks: UpdateClusterConfig of the authentication mode",
		given: func(w *fixture) {
			w.cluster()
			in := w.clusterNamed("old")
			in.AccessConfig.AuthenticationMode = ekstypes.AuthenticationModeConfigMap
			w.do(w.root.eks.CreateCluster(w.t.Context(), in))
			w.serves("old")
		},
		needs: []statement{allow("eks:UpdateClusterConfig").when("Bool", "eks:endpointPublicAccess", "true")},
		stops: []statement{
			allow("eks:UpdateClusterConfig").when("StringEquals", "eks:authenticationMode", "API_AND_CONFIG_MAP"),
		},
		try: func(w *fixture) error {
			return failed(w.me.eks.UpdateClusterConfig(w.t.Context(), &eks.UpdateClusterConfigInput{
				Name: p("old"), AccessConfig: &ekstypes.UpdateAccessConfigRequest{
					AuthenticationMode: ekstypes.AuthenticationModeApiAndConfigMap},
			}))
		},
	},
	{
		name: "eks: CreateCluster without PassRole", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole")},
		stops: []statement{passCluster()}, try: createsCluster(func(*eks.CreateClusterInput) {}),
	},
	{
		name: "eks: CreateCluster with a stronger role than one may pass", given: (*fixture).cluster,
		needs: []statement{allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole"), passCluster()},
		stops: []statement{
			passAdmin(),
		}, try: createsCluster(func(in *eks.CreateClusterInput) { in.RoleArn = p(adminARN) }),
	},
	{
		name: "eks: CreateCluster with PassRole to another service", given: (*fixture).cluster,
		needs: []statement{
			allow("eks:*", "ec2:*", "iam:CreateServiceLinkedRole"),
			passedTo(passCluster(), "ec2.amazonaws.com"),
		},
		stops: []statement{
			passedTo(passCluster(), "eks.amazonaws.com"),
		}, try: createsCluster(func(*eks.CreateClusterInput) {}),
	},
	{
		name: "eks: CreateCluster with its creator as its administrator", given: (*fixture).cluster,
		needs: []statement{
			allow("ec2:*", "iam:CreateServiceLinkedRole"), passCluster(),
			allow("eks:CreateCluster").when("Bool", "eks:bootstrapClusterCreatorAdminPermissions", "false"),
		},
		stops: []statement{
			allow("eks:CreateCluster").when("Bool", "eks:bootstrapClusterCreatorAdminPermissions", "true"),
		},
		try: createsCluster(func(in *eks.CreateClusterInput) {
			in.AccessConfig.BootstrapClusterCreatorAdminPermissions = aws.Bool(true)
		}),
	},
	{
		name: "eks: TagResource of a cluster of others, then what the tag allows", given: (*fixture).cluster,
		needs: []statement{onlyMine("eks:CreateAccessEntry")}, stops: []statement{allow("eks:TagResource").on(devARN)},
		try: func(w *fixture) error {
			if _, err := w.me.eks.TagResource(w.t.Context(), &eks.TagResourceInput{
				ResourceArn: p(devARN), Tags: map[string]string{"team": "crew"},
			}); err != nil {
				return err
			}
			return createsEntry(func(*eks.CreateAccessEntryInput) {})(w)
		},
	},
}

// nodeTemplate creates a cluster with a launch template for nodes of two versions, which have no image.
func nodeTemplate(w *fixture) {
	w.cluster()
	w.nodeTemplate()
}
