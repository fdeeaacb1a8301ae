import "@cloudscape-design/global-styles/dark-mode-utils.css";
import "./app/app.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import App from "./app/App";
import { followTheme } from "./app/theme";

followTheme();
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
