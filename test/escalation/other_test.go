package escalation

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
)

const (
	imageName    = "/app/image"
	imageARN     = "arn:aws:ssm:" + region + ":" + account + ":parameter" + imageName
	other        = iamtest.Other
	repositories = "arn:aws:ecr:" + region + ":" + account + ":repository/"
)

var crewTag = []ecrtypes.Tag{{Key: p("team"), Value: p("crew")}}

// parameter creates a parameter with the image that others launch.
func parameter(w *fixture) {
	w.do(w.root.ssm.PutParameter(w.t.Context(), &ssm.PutParameterInput{
		Name: p(imageName), Value: machineImage, Type: ssmtypes.ParameterTypeString,
	}))
}

// puts overwrites the parameter, as mallory.
func puts(w *fixture) error {
	return failed(w.me.ssm.PutParameter(w.t.Context(), &ssm.PutParameterInput{
		Name: p(imageName), Value: p("ami-00000000000000bad"), Type: ssmtypes.ParameterTypeString, Overwrite: aws.Bool(true),
	}))
}

// repository creates a repository of the account.
func repository(w *fixture) {
	w.do(w.root.ecr.CreateRepository(w.t.Context(), &ecr.CreateRepositoryInput{RepositoryName: p("app")}))
}

// opens sets, as mallory, a repository policy that lets mallory do everything.
func opens(w *fixture) error {
	return failed(w.me.ecr.SetRepositoryPolicy(w.t.Context(), &ecr.SetRepositoryPolicyInput{
		RepositoryName: p("app"), PolicyText: p(repositoryPolicy("ecr:*")),
	}))
}

// repositoryPolicy returns a repository policy that allows mallory an action.
func repositoryPolicy(action string) string {
	return document(
		statement{"Sid": "x", "Effect": "Allow", "Principal": map[string]string{"AWS": mallory}, "Action": action},
	)
}

// theirs creates a repository of another account, whose policy allows mallory an action.
func theirs(action string) func(*fixture) {
	return func(w *fixture) {
		w.do(w.them.ecr.CreateRepository(w.t.Context(), &ecr.CreateRepositoryInput{RepositoryName: p("app")}))
		w.do(w.them.ecr.SetRepositoryPolicy(w.t.Context(), &ecr.SetRepositoryPolicyInput{
			RepositoryName: p("app"), PolicyText: p(repositoryPolicy(action)),
		}))
	}
}

// listsTheirs lists the images of the repository of another account, as mallory.
func listsTheirs(w *fixture) error {
	return failed(
		w.me.ecr.ListImages(w.t.Context(), &ecr.ListImagesInput{RegistryId: p(other), RepositoryName: p("app")}),
	)
}

var otherPaths = []path{
	{
		name: "ssm: GetParametersByPath of a denied path, by an ARN with a slash too many", given: parameter,
		needs: []statement{
			allow("ssm:*"),
		}, hinders: []statement{deny("ssm:*").on(strings.Replace(imageARN, "/image", "*", 1))},
		try: func(w *fixture) error {
			return failed(w.me.ssm.GetParametersByPath(w.t.Context(), &ssm.GetParametersByPathInput{
				Path: p("arn:aws:ssm:" + region + ":" + account + ":parameter//app"),
			}))
		},
	}, {
		name: "ssm: GetParameter of a denied parameter, by an ARN with a slash too many", given: parameter,
		needs: []statement{allow("ssm:*")}, hinders: []statement{deny("ssm:*").on(imageARN)},
		try: func(w *fixture) error {
			for _, name := range []string{strings.Replace(imageARN, "parameter/", "parameter//", 1), imageARN,
				imageName} {
				err := failed(w.me.ssm.GetParameter(w.t.Context(), &ssm.GetParameterInput{Name: &name}))
				if errorCode(err) != "ValidationException" { // with the permission the first is refused for what it is
					return err
				}
			}
			return nil
		},
	},
	{
		name: "ssm: PutParameter that others launch from", given: parameter, needs: []statement{allow("ssm:Get*")},
		stops: []statement{allow("ssm:PutParameter").on(imageARN)}, try: puts,
	},
	{
		name: "ssm: PutParameter over one that is there", given: parameter,
		needs: []statement{allow("ssm:PutParameter").when("StringEquals", "ssm:Overwrite", "false")},
		stops: []statement{allow("ssm:PutParameter").when("StringEquals", "ssm:Overwrite", "true")}, try: puts,
	},
	{
		name: "ssm: PutParameter beside the allowed path", given: parameter,
		needs: []statement{allow("ssm:PutParameter").on("arn:aws:ssm:" + region + ":" + account + ":parameter/crew/*")},
		stops: []statement{allow("ssm:PutParameter").on(imageARN)}, try: puts,
	},
	{
		name: "ssm: GetParameter of a secret", given: parameter,
		needs: []statement{allow("ssm:DescribeParameters", "ssm:PutParameter")},
		stops: []statement{allow("ssm:GetParameter").on(imageARN)},
		try: func(w *fixture) error {
			return failed(w.me.ssm.GetParameter(w.t.Context(), &ssm.GetParameterInput{Name: p(imageName)}))
		},
	},
	{
		name: "ssm: GetParameter that is denied, by its ARN", given: parameter, needs: []statement{allow("ssm:*")},
		hinders: []statement{deny("ssm:GetParameter").on(imageARN)},
		try: func(w *fixture) error {
			return failed(w.me.ssm.GetParameter(w.t.Context(), &ssm.GetParameterInput{Name: p(imageARN)}))
		},
	},
	{
		name: "ssm: GetParameter that is denied, with its version", given: parameter,
		needs:   []statement{allow("ssm:*")},
		hinders: []statement{deny("ssm:GetParameter").on(imageARN)},
		try: func(w *fixture) error {
			return failed(w.me.ssm.GetParameter(w.t.Context(), &ssm.GetParameterInput{Name: p(imageName + ":1")}))
		},
	},
	{
		name: "ssm: GetParameters of a secret beside what is allowed", given: parameter,
		needs: []statement{
			allow("ssm:GetParameters").except(imageARN),
		}, stops: []statement{allow("ssm:GetParameters").on(imageARN)},
		try: func(w *fixture) error {
			return failed(
				w.me.ssm.GetParameters(w.t.Context(), &ssm.GetParametersInput{Names: []string{"/crew/own", imageName}}),
			)
		},
	},
	{
		name: "ssm: GetParameterHistory of a secret", given: parameter, needs: []statement{allow("ssm:GetParameter")},
		stops: []statement{allow("ssm:GetParameterHistory").on(imageARN)},
		try: func(w *fixture) error {
			return failed(
				w.me.ssm.GetParameterHistory(w.t.Context(), &ssm.GetParameterHistoryInput{Name: p(imageName)}),
			)
		},
	},
	{
		name: "ssm: AddTagsToResource, then what the tag allows", given: parameter,
		needs: []statement{onlyMine("ssm:PutParameter")},
		stops: []statement{allow("ssm:AddTagsToResource").on(imageARN)},
		try: func(w *fixture) error {
			if _, err := w.me.ssm.AddTagsToResource(w.t.Context(), &ssm.AddTagsToResourceInput{
				ResourceId: p(imageName), ResourceType: ssmtypes.ResourceTypeForTaggingParameter,
				Tags: []ssmtypes.Tag{{Key: p("team"), Value: p("crew")}},
			}); err != nil {
				return err
			}
			return puts(w)
		},
	},
	{
		name: "ecr: SetRepositoryPolicy for oneself", given: repository,
		needs: []statement{allow("ecr:GetRepositoryPolicy")},
		stops: []statement{allow("ecr:SetRepositoryPolicy").on(repositories + "app")}, try: opens,
	},
	{
		name: "ecr: TagResource of a repository of others, then what the tag allows", given: repository,
		needs: []statement{
			onlyMine("ecr:SetRepositoryPolicy"),
		}, stops: []statement{allow("ecr:TagResource").on(repositories + "app")},
		try: func(w *fixture) error {
			if _, err := w.me.ecr.TagResource(w.t.Context(), &ecr.TagResourceInput{
				ResourceArn: p(repositories + "app"), Tags: crewTag,
			}); err != nil {
				return err
			}
			return opens(w)
		},
	},
	{
		name: "ecr: CreateRepository with tags, without TagResource", needs: []statement{allow("ecr:CreateRepository")},
		stops: []statement{allow("ecr:TagResource")},
		try: func(w *fixture) error {
			return failed(
				w.me.ecr.CreateRepository(
					w.t.Context(),
					&ecr.CreateRepositoryInput{RepositoryName: p("mine"), Tags: crewTag},
				),
			)
		},
	},
	{
		name: "ecr: GetAuthorizationToken", needs: []statement{allow("ecr:BatchGetImage")},
		stops: []statement{allow("ecr:GetAuthorizationToken")},
		try: func(w *fixture) error {
			return failed(w.me.ecr.GetAuthorizationToken(w.t.Context(), &ecr.GetAuthorizationTokenInput{}))
		},
	},
	{
		name: "ecr: a repository of another account that does not let one in", given: theirs("ecr:DescribeImages"),
		needs: []statement{allow("ecr:*")}, try: listsTheirs,
		open: func(w *fixture) {
			w.do(w.them.ecr.SetRepositoryPolicy(w.t.Context(), &ecr.SetRepositoryPolicyInput{
				RepositoryName: p("app"), PolicyText: p(repositoryPolicy("ecr:ListImages")),
			}))
		},
	},
	{
		name:  "ecr: a repository of another account that lets one in, without one's own account's permission",
		given: theirs("ecr:ListImages"),
		needs: []statement{allow("ecr:ListImages").on(repositories + "*")},
		stops: []statement{
			allow("ecr:ListImages").on("arn:aws:ecr:" + region + ":" + other + ":repository/app"),
		}, try: listsTheirs,
	},
}
