declare module "*.module.css" {
  const classes: Record<string, string>;
  export default classes;
}

declare module "*.css";

declare module "redoc/bundles/redoc.standalone.js" {
  export function init(document: string, options: object, element: HTMLElement | null): void;
}
