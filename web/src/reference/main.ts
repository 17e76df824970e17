import { init } from "redoc/bundles/redoc.standalone.js";

import "./reference.css";

// Redoc displays the OpenAPI document of this gateway.
init(
  "/api/v1/openapi.json",
  {
    // System fonts, because the page must not load fonts from other hosts.
    theme: {
      typography: {
        fontFamily: "system-ui, sans-serif",
        headings: { fontFamily: "system-ui, sans-serif" },
        code: { fontFamily: "ui-monospace, monospace" },
      },
      sidebar: { width: "280px" },
    },
    expandResponses: "200,201,202",
    jsonSampleExpandLevel: 3,
    pathInMiddlePanel: true,
    requiredPropsFirst: true,
  },
  document.getElementById("reference"),
);
