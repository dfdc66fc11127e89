package openapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"github.com/swaggo/swag"

	"github.com/auth19/idem/core"
)

// With "openapi" and "info" the module's part is a document, of 3.0 and of 3.1.
func TestPartIsADocument(t *testing.T) {
	for _, version := range []string{"3.0.3", "3.1.0"} {
		t.Run(version, func(t *testing.T) {
			part := newModule(t).OpenAPI()
			part["openapi"], part["info"] = version, map[string]any{"title": "payments", "version": "1"}
			doc := valid(t, part)
			require.Equal(t, 4, doc.Paths.Len())
		})
	}
}

// The validator finds what is wrong: else the tests here prove nothing.
func TestValidatorFindsMistakes(t *testing.T) {
	part := newModule(t).OpenAPI()
	part["openapi"], part["info"] = "3.0.3", map[string]any{"title": "payments", "version": "1"}
	delete(part["components"].(map[string]any), "schemas")
	_, err := openapi3.NewLoader().LoadFromData(toJSON(t, part))
	require.ErrorContains(t, err, "IdempotencyProblem")
}

// kinDocument adds the guards to a document of kin-openapi.
func kinDocument(ctx context.Context, idem *core.Module, doc *openapi3.T) (*openapi3.T, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var merged map[string]any
	if err := json.Unmarshal(text, &merged); err != nil {
		return nil, err
	}
	if _, err := idem.MergeOpenAPI(merged); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(merged); err != nil {
		return nil, err
	}
	if doc, err = openapi3.NewLoader().LoadFromData(text); err != nil {
		return nil, err
	}
	return doc, doc.Validate(ctx)
}

func TestKin(t *testing.T) {
	own := &openapi3.T{OpenAPI: "3.0.3", Info: &openapi3.Info{Title: "shop", Version: "1"}, Paths: openapi3.NewPaths()}
	refund := openapi3.NewOperation()
	refund.AddParameter(openapi3.NewPathParameter("payment").WithSchema(openapi3.NewStringSchema()))
	refund.AddResponse(http.StatusCreated, openapi3.NewResponse().WithDescription("refunded").WithJSONSchema(openapi3.NewObjectSchema()))
	own.AddOperation("/v1/payments/{payment}/refunds", http.MethodPost, refund)

	doc, err := kinDocument(t.Context(), newModule(t), own)
	require.NoError(t, err)
	requireDescribed(t, doc, "/v1/payments/{payment}/refunds")
}

// humaDocument is the document of a huma API with the guards in it.
func humaDocument(idem *core.Module, api huma.API) (map[string]any, error) {
	text, err := json.Marshal(api.OpenAPI())
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	_, err = idem.MergeOpenAPI(doc)
	return doc, err
}

func TestHuma(t *testing.T) {
	type input struct {
		Payment string `path:"payment"`
	}
	type output struct {
		Body struct {
			ID string `json:"id"`
		}
	}
	api := humago.New(http.NewServeMux(), huma.DefaultConfig("shop", "1"))
	huma.Register(api, huma.Operation{OperationID: "refund", Method: http.MethodPost, DefaultStatus: http.StatusCreated,
		Path: "/v1/payments/{payment}/refunds"}, func(context.Context, *input) (*output, error) { return &output{}, nil })

	doc, err := humaDocument(newModule(t), api)
	require.NoError(t, err)
	requireDescribed(t, valid(t, doc), "/v1/payments/{payment}/refunds")
}

// swagDocument adds the guards to the document that swaggo wrote, and which is Swagger 2.0.
func swagDocument(idem *core.Module, swagger []byte) (map[string]any, error) {
	var old openapi2.T
	if err := json.Unmarshal(swagger, &old); err != nil {
		return nil, err
	}
	converted, err := openapi2conv.ToV3(&old)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(converted)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	_, err = idem.MergeOpenAPI(doc)
	return doc, err
}

// swaggo makes its document of comments. Its base path becomes a server, and the routes of the table begin with it.
func TestSwaggo(t *testing.T) {
	parser := swag.New(swag.SetDebugger(discard{}))
	require.NoError(t, parser.ParseAPI("testdata/swag", "main.go", 1))

	doc, err := swagDocument(newModule(t), toJSON(t, parser.GetSwagger()))
	require.NoError(t, err)
	requireDescribed(t, valid(t, doc), "/payments/{payment}/refunds")
	conflict := valid(t, doc).Paths.Find("/payments/{payment}/refunds").Post.Responses.Status(http.StatusConflict).Value
	require.Contains(t, *conflict.Description, "nothing left to refund")
	require.Contains(t, conflict.Content, "application/json", "the app's own refusal")
}

// discard drops what swaggo says while it works.
type discard struct{}

func (discard) Printf(string, ...any) {}
