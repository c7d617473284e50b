package wire

// azure is Azure OpenAI: the APIs of OpenAI at paths of its own. The older ones
// have the version of the API in the query, and all but that of responses a
// deployment in the path; the newer, below /openai/v1, have the model in the body
// as OpenAI has.
var azure = Provider{
	Name:      "azure",
	BaseEnv:   []string{"AZURE_OPENAI_ENDPOINT"},
	KeyEnv:    "AZURE_OPENAI_API_KEY",
	KeyHeader: "api-key",
	// The module of OpenAI's Python SDK has a client of its own, which refuses to
	// choose between two providers unless it is told.
	FixedEnv: [][2]string{{"OPENAI_API_TYPE", "openai"}},

	failure: openAI.failure, model: openAI.model, modelList: openAI.modelList,
}

var (
	azureChatRow       = onAzure(chatRow, AzureChat, "chat/completions")
	azureResponsesRow  = onAzure(responsesRow, AzureResponses, "responses")
	azureEmbeddingsRow = onAzure(embeddingsRow, AzureEmbeddings, "embeddings")
)

// onAzure is an API of OpenAI as Azure has it.
func onAzure(r row, api API, endpoint string) row {
	r.api, r.provider = api, &azure
	r.path, r.deploymentPath = "/openai/v1/"+endpoint, "/openai/deployments/"+inPath+"/"+endpoint
	// The SDK for Node takes OPENAI_BASE_URL, if it is set, in place of the endpoint
	// with /openai.
	r.barePath, r.onDeployments = "/deployments/"+inPath+"/"+endpoint, ""
	if api == AzureResponses { // which came later, when the model stood in the body
		r.deploymentPath, r.barePath = "/openai/"+endpoint, ""
	}
	return r
}
